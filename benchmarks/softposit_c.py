# SPDX-License-Identifier: Apache-2.0
"""SoftPosit's C library, from PyPI's sdist, built under build/ when first asked for: rival and oracle."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.numerics.posit import Posit

VERSION = "0.3.4.4"
ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "softposit"


def source() -> Path:
    """The unpacked `SoftPosit-master`: source/*.c, source/include, build/Linux-x86_64-GCC/platform.h."""
    tree = BUILD / f"softposit-{VERSION}" / "SoftPosit-master"
    if not tree.is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "softposit",
        ]
        subprocess.run([*command, "--dest", str(BUILD), f"softposit=={VERSION}"], check=True)
        with tarfile.open(BUILD / f"softposit-{VERSION}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return tree


def library() -> ctypes.CDLL:
    """`benchmarks/softposit_batch.c` and SoftPosit, compiled with -O2 into one shared library."""
    binary = BUILD / "softposit_batch.so"
    driver = Path(__file__).with_name("softposit_batch.c")
    if not binary.exists() or binary.stat().st_mtime < driver.stat().st_mtime:
        tree = source()
        sources = [str(path) for path in sorted((tree / "source").glob("*.c"))]
        includes = [f"-I{tree / 'source' / 'include'}", f"-I{tree / 'build' / 'Linux-x86_64-GCC'}"]
        flags = ["-O2", "-std=gnu99", "-fPIC", "-shared", "-w", "-DINLINE=inline", "-DSOFTPOSIT_FAST_INT64"]
        subprocess.run(["cc", *flags, *includes, str(driver), *sources, "-o", str(binary), "-lm"], check=True)
    return ctypes.CDLL(str(binary))


def has_quire(fmt: Posit) -> bool:
    """SoftPosit has posit<8,0>, posit<16,1> and every width with es 2."""
    return (fmt.n, fmt.es) in ((8, 0), (16, 1)) or fmt.es == 2


def quire_matmul(lib: ctypes.CDLL, fmt: Posit, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """round(a @ b.T) by SoftPosit's quire: a (M, K), b (N, K) codes, result (M, N) codes."""
    m, k = a.shape
    n = b.shape[0]
    wide = fmt.es == 2
    dtype = np.dtype(np.int32) if wide else fmt.storage
    left, right = np.ascontiguousarray(a, dtype), np.ascontiguousarray(b, dtype)
    result = np.empty((m, n), dtype)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (left, right, result))
    sizes = [ctypes.c_int(extent) for extent in (m, n, k)]
    if wide:
        lib.quire_2(*pointers, *sizes, ctypes.c_int(fmt.n))
    else:
        getattr(lib, f"quire_{fmt.n}_{fmt.es}")(*pointers, *sizes)
    return result.astype(fmt.storage)

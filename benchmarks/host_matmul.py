# SPDX-License-Identifier: Apache-2.0
"""How much exactness costs on the host: `exact.dot` and `exact.conv` against float32 sgemm on one thread, and
against SoftPosit's C quire, in the same run.

    python benchmarks/host_matmul.py            # a table
    python benchmarks/host_matmul.py --json     # rows with format, shape, slowdown and speed-up
    python benchmarks/host_matmul.py --check N  # N dot products a format against the quires

Times are CPU seconds of one thread, the best of several turns taken alternately; our time takes codes in and
gives codes out. The convolution is measured against the sgemm of its patches alone, already laid out.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

import argparse  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
import softposit_c  # noqa: E402

from minun_pio.numerics import exact  # noqa: E402
from minun_pio.numerics.fixed import Fixed  # noqa: E402
from minun_pio.numerics.operand import Window, patches  # noqa: E402
from minun_pio.numerics.parse import PAPER_POSITS  # noqa: E402
from minun_pio.numerics.posit import Posit  # noqa: E402

Format = Posit | Fixed
FORMATS: tuple[Format, ...] = (*PAPER_POSITS, Fixed(8, -5), Fixed(16, -12))
ROWS, COLUMNS = 2000, 128
DEPTHS = (64, 256, 1024)
WINDOW = Window((3, 3), pads=(1, 1, 1, 1))
SAMPLES, SIDE, CHANNELS = 32, 16, 32


def bar(fmt: Format) -> float | None:
    """The slowdown allowed at K >= 256; none for 32 bits."""
    if fmt.bits > 16:
        return None
    return 2.5 if fmt == Posit(8, 0) else 7.0


def race(works: Sequence[Callable[[], Any]], turns: int) -> list[float]:
    """The smallest CPU time of each of `works` in seconds, run in turn, so that all meet the same machine."""
    times = [math.inf] * len(works)
    for work in works:
        work()
    begun = time.process_time()
    for turn in range(turns):
        if turn >= 2 and time.process_time() - begun > 6.0:
            break
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            times[i] = min(times[i], time.process_time() - start)
    return times


def matmul_rows(turns: int, lib: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    rows = []
    for depth in DEPTHS:
        x = rng.normal(0, 1, (ROWS, depth)) * (rng.random((ROWS, depth)) < 0.7)  # activations, some zero
        w = rng.normal(0, 1 / np.sqrt(depth), (COLUMNS, depth))
        singles = x.astype(np.float32), w.astype(np.float32)
        shape = f"{ROWS}x{depth}x{COLUMNS}"
        for fmt in FORMATS:
            xc, wc = fmt.encode(x), fmt.encode(w)
            ours, sgemm = race(
                (
                    partial(exact.dot, xc, fmt, wc, fmt, None, None, fmt),
                    partial(np.matmul, singles[0], singles[1].T),
                ),
                turns,
            )
            rows.append(_row(fmt, shape, depth, ours, sgemm, _quire_time(lib, fmt, xc, wc), ROWS * COLUMNS))
    return rows


def conv_rows(turns: int, lib: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(8)
    image = np.maximum(rng.normal(0, 1, (SAMPLES, SIDE, SIDE, CHANNELS)), 0)
    kernels = rng.normal(0, 1 / np.sqrt(9 * CHANNELS), (CHANNELS, 3, 3, CHANNELS))
    flat = kernels.reshape(CHANNELS, -1).astype(np.float32)
    laid_out = patches(image.astype(np.float32), WINDOW).reshape(-1, 9 * CHANNELS)
    rows = []
    for fmt in FORMATS:
        xc, wc = fmt.encode(image), fmt.encode(kernels)
        ours, sgemm, whole = race(
            (
                partial(exact.conv, xc, fmt, wc, fmt, None, None, fmt, WINDOW),
                partial(np.matmul, laid_out, flat.T),
                partial(_float_convolution, image.astype(np.float32), flat),
            ),
            turns,
        )
        codes = patches(xc, WINDOW).reshape(-1, 9 * CHANNELS)
        quire = _quire_time(lib, fmt, codes, wc.reshape(CHANNELS, -1))
        shape = f"conv3x3x{CHANNELS}->{CHANNELS} on {SIDE}x{SIDE}"
        row = _row(fmt, shape, 9 * CHANNELS, ours, sgemm, quire, laid_out.shape[0] * CHANNELS)
        row["slowdown_vs_float32_convolution"] = round(ours / whole, 3)
        rows.append(row)
    return rows


def _float_convolution(image: NDArray[Any], flat: NDArray[Any]) -> NDArray[Any]:
    return patches(image, WINDOW).reshape(-1, flat.shape[1]) @ flat.T


def _quire_time(lib: Any, fmt: Format, x: NDArray[Any], w: NDArray[Any]) -> float | None:
    """Seconds SoftPosit takes for one output, from a part of the problem."""
    if lib is None or not isinstance(fmt, Posit) or not softposit_c.has_quire(fmt):
        return None
    part_x, part_w = x[:8], w[:16]
    (seconds,) = race((partial(softposit_c.quire_matmul, lib, fmt, part_x, part_w),), 3)
    return seconds / (len(part_x) * len(part_w))


def _row(
    fmt: Format, shape: str, depth: int, ours: float, sgemm: float, quire: float | None, outputs: int
) -> dict[str, Any]:
    slowdown = ours / sgemm
    speedup = None if quire is None else quire * outputs / ours
    allowed = bar(fmt) if depth >= 256 else None
    met = allowed is None or (slowdown <= allowed and (speedup is None or speedup >= 70.0))
    return {
        "format": fmt.name,
        "shape": shape,
        "slowdown_vs_sgemm": round(slowdown, 3),
        "speedup_vs_softposit": None if speedup is None else round(speedup, 1),
        "bar_slowdown": allowed,
        "bar_met": met,
        "ns_per_mac": round(ours / (outputs * depth) * 1e9, 4),
    }


def check(count: int, lib: Any) -> list[dict[str, Any]]:
    """`count` dot products a format, wild, cancelling, tied, saturating and NaR ones, against the quires."""
    rows = []
    for fmt in PAPER_POSITS:
        if not softposit_c.has_quire(fmt):
            continue
        rng = np.random.default_rng(11)
        done = different = ours_wrong = 0
        while done < count:
            for kind in ("network", "wild", "cancel", "tie", "saturate", "nar"):
                a, b = _adversarial(fmt, kind, rng)
                ours = exact.dot(a, fmt, b, fmt, None, None, fmt)
                theirs = softposit_c.quire_matmul(lib, fmt, a, b)
                done += ours.size
                for i, j in np.argwhere(ours != theirs).tolist():
                    different += 1
                    ours_wrong += int(ours[i, j]) != _integer_oracle(fmt, a[i], b[j])
        rows.append({"format": fmt.name, "dots": done, "differences": different, "ours_wrong": ours_wrong})
    return rows


def _adversarial(fmt: Posit, kind: str, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    depth = int(rng.integers(2, 65))
    shape_a, shape_b = (160, depth), (160, depth)
    if kind == "network":
        return fmt.encode(rng.normal(0, 1, shape_a)), fmt.encode(rng.normal(0, 0.2, shape_b))
    low = fmt.nar if kind == "nar" else fmt.min_code
    a = rng.integers(low, fmt.max_code, shape_a, endpoint=True).astype(fmt.storage)
    b = rng.integers(low, fmt.max_code, shape_b, endpoint=True).astype(fmt.storage)
    half = depth // 2
    if kind == "cancel":  # pairs that cancel, and a small rest
        a[:, half : 2 * half], b[:, half : 2 * half] = a[:, :half], -b[:, :half]
        a[:, -1] = rng.integers(1, 5, len(a))
    elif kind == "tie":  # few terms: sums that end exactly between two codes are common
        keep = rng.random(shape_a) < 2.5 / depth
        a = np.where(keep, a, 0).astype(fmt.storage)
    elif kind == "saturate":
        extremes = np.array([fmt.min_code, -1, 0, 1, fmt.max_code], fmt.storage)
        a, b = rng.choice(extremes, shape_a), rng.choice(extremes, shape_b)
    return a, b


def _integer_oracle(fmt: Posit, a: NDArray[Any], b: NDArray[Any]) -> int:
    if (a == fmt.nar).any() or (b == fmt.nar).any():
        return fmt.nar
    unit = 2 * fmt.max_scale + 64
    integers = [[int(v * 2.0 ** (unit // 2)) for v in fmt.decode(codes).tolist()] for codes in (a, b)]
    return fmt.encode_integer(sum(p * q for p, q in zip(*integers, strict=True)), -2 * (unit // 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--check", type=int, metavar="N")
    parser.add_argument("--no-softposit", action="store_true", help="leave the rival out")
    options = parser.parse_args()
    lib = None if options.no_softposit else softposit_c.library()
    if options.check:
        rows = check(options.check, lib)
        wrong = any(row["ours_wrong"] for row in rows)
    else:
        rows = matmul_rows(options.turns, lib) + conv_rows(options.turns, lib)
        wrong = False
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

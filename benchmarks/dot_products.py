# SPDX-License-Identifier: Apache-2.0
"""Random and adversarial dot products through the board's kernels, compiled for the host, against exact sums.

    python benchmarks/dot_products.py [--dots 1000000] [--json]

Each of the 16-bit formats: trained weights, any codes, cancelling pairs, ties, saturation, the smallest and
the largest values, NaR. Each product runs through the kernel that the weights get, its variant in tiles, and
the exact sums. Expected: the host's exact sums, whose own tests are in test/python/test_numerics_exact.py;
and for posits SoftPosit's quire, with Python's integers as the referee where those two differ. Prints the
outputs that differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "test" / "python")]
from kernel_program import Case, run  # noqa: E402

from minun_pio.numerics.fixed import Fixed  # noqa: E402
from minun_pio.numerics.posit import Posit  # noqa: E402
from minun_pio.ops import dense  # noqa: E402

FORMATS: tuple[Any, ...] = (Posit(16, 1), Posit(16, 2), Fixed(16, -11))
INPUTS, OUTPUTS = 80, 61  # more than two tiles, more rows than a group, and rows left over
Codes = Any
Maker = Callable[[np.random.Generator, Any, int], tuple[Codes, Any]]


def trained(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    weights = rng.normal(0, 0.15, (OUTPUTS, INPUTS))
    return fmt.encode(np.maximum(rng.normal(0, 1, (samples, INPUTS)), 0)), weights


def any_codes(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    def codes(shape: tuple[int, ...]) -> Codes:
        return rng.integers(fmt.min_code, fmt.max_code + 1, shape).astype(fmt.storage)

    return codes((samples, INPUTS)), fmt.decode(codes((OUTPUTS, INPUTS)))


def cancelling(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    """Pairs of opposite products, and a few left over that are far smaller."""
    half = rng.normal(0, 1, (OUTPUTS, INPUTS // 2))
    weights = np.concatenate([half, -half], axis=1)
    x = rng.normal(0, 1, (samples, INPUTS // 2))
    codes = fmt.encode(np.concatenate([x, x], axis=1))
    codes[np.arange(samples), rng.integers(0, INPUTS, samples)] += 1
    return codes, weights


def ties(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    """A value and half of its last place, sometimes with the smallest value beside it or against it."""
    codes = np.zeros((samples, INPUTS), fmt.storage)
    value = rng.integers(1, fmt.max_code, samples).astype(fmt.storage)
    codes[:, 0] = value
    step = np.abs(fmt.decode((value + 1).astype(fmt.storage)) - fmt.decode(value))
    codes[:, 1] = fmt.encode(step)
    codes[:, 2] = 1
    weights = np.zeros((OUTPUTS, INPUTS))
    weights[:, 0] = rng.choice([-1.0, 1.0], OUTPUTS)
    weights[:, 1] = rng.choice([-0.5, 0.5], OUTPUTS)
    weights[:, 2] = rng.choice([-1.0, 0.0, 1.0], OUTPUTS, p=[0.25, 0.5, 0.25])
    return codes, weights


def extremes(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    """The largest and smallest values, in sums that saturate, vanish or cancel."""
    choices = np.asarray([fmt.max_code, fmt.min_code, 1, -1, 0])
    x = rng.choice(choices, (samples, INPUTS)).astype(fmt.storage)
    weights = fmt.decode(rng.choice(choices, (OUTPUTS, INPUTS)).astype(fmt.storage))
    return x, weights


def small(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    """Trained weights on inputs of which one is tiny: what the guards are for."""
    codes, weights = trained(rng, fmt, samples)
    codes[np.arange(samples), rng.integers(0, INPUTS, samples)] = rng.integers(1, 200, samples)
    return codes, weights


def with_nar(rng: np.random.Generator, fmt: Any, samples: int) -> tuple[Codes, Any]:
    codes, weights = trained(rng, fmt, samples)
    if fmt.nar is not None:
        codes[::2, rng.integers(0, INPUTS)] = fmt.nar
    return codes, weights


KINDS: tuple[Maker, ...] = (trained, any_codes, cancelling, ties, extremes, small, with_nar)


def check(fmt: Any, dots: int, seed: int = 0, quire: Any = None) -> list[dict[str, Any]]:
    """Rows of kind and kernel with the outputs that differ; about `dots` products in all."""
    samples = -(-dots // (len(KINDS) * OUTPUTS))
    rng = np.random.default_rng(seed)
    rows = []
    for kind in KINDS:
        codes, weights = kind(rng, fmt, samples)
        bias = np.zeros(OUTPUTS) if kind in (ties, cancelling) else rng.normal(0, 0.1, OUTPUTS)
        case = Case("dense", {0: codes}, {1: weights, 2: bias}, {0: fmt, 1: fmt, 2: fmt}, fmt)
        expected = case.expected()
        row: dict[str, Any] = {"format": fmt.name, "kind": kind.__name__, "dots": samples * OUTPUTS}
        for kernel in ("chosen", "tiles", "exact"):
            wanted = replace(case, small_scratch=kernel == "tiles")
            with (
                tempfile.TemporaryDirectory() as folder,
                patch.object(dense, "choose", (lambda _: None) if kernel == "exact" else dense.choose),
            ):
                (output,), (call,), _ = run("host", [wanted], folder=folder)
            row[kernel] = int(np.sum(output != expected))
            row.setdefault("variant", call.variant)
        if quire is not None and isinstance(fmt, Posit):
            differs = np.argwhere(quire(fmt, case) != expected).tolist()
            wrong = [at for at in differs if referee(fmt, case, *at) != expected[tuple(at)]]
            row["softposit"], row["softposit_itself_wrong"] = len(wrong), len(differs) - len(wrong)
        rows.append(row)
    return rows


def referee(fmt: Posit, case: Case, sample: int, output: int) -> int:
    """The code of one output in Python's integers, where SoftPosit's quire says otherwise."""
    x = fmt.decode(case.inputs[0][sample])
    w, bias = (fmt.decode(fmt.encode(case.constants[i]))[output] for i in (1, 2))
    total = sum(
        (Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), w.tolist(), strict=True)), Fraction(bias)
    )
    magnitude, finer = abs(total), Posit(fmt.n + 1, fmt.es)
    if magnitude == 0:
        return 0
    low, high = 1, fmt.max_code
    while low < high:  # the largest code whose value is not above
        middle = (low + high + 1) // 2
        value = Fraction(float(fmt.decode(np.asarray([middle], fmt.storage))[0]))
        low, high = (middle, high) if value <= magnitude else (low, middle - 1)
    if low < fmt.max_code:
        boundary = Fraction(float(finer.decode(np.asarray([2 * low + 1], finer.storage))[0]))
        low += magnitude > boundary or (magnitude == boundary and low % 2 == 1)
        if magnitude < Fraction(float(fmt.decode(np.asarray([1], fmt.storage))[0])):
            low = 1
    return low if total > 0 else -low


def softposit_quire() -> Any:
    """SoftPosit's quire on a case, the bias as one more product with 1."""
    import softposit_c

    lib = softposit_c.library()

    def outputs(fmt: Posit, case: Case) -> Codes:
        weights, bias = (fmt.encode(case.constants[i]) for i in (1, 2))
        codes = case.inputs[0]
        one = np.full((codes.shape[0], 1), 1 << (fmt.n - 2), codes.dtype)
        left = np.concatenate([codes, one], axis=1)
        return softposit_c.quire_matmul(lib, fmt, left, np.concatenate([weights, bias[:, None]], axis=1))

    return outputs


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dots", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    started = time.perf_counter()
    quire = softposit_quire()
    rows = [row for fmt in FORMATS for row in check(fmt, arguments.dots, quire=quire)]
    wrong = sum(row[k] for row in rows for k in ("chosen", "tiles", "exact", "softposit") if k in row)
    seconds = round(time.perf_counter() - started, 1)
    if arguments.json:
        print(json.dumps({"rows": rows, "different": wrong, "seconds": seconds}, indent=1))
        return 1 if wrong else 0
    head = (
        "format",
        "kind",
        "variant",
        "dots",
        "chosen",
        "tiles",
        "exact",
        "softposit",
        "softposit_itself_wrong",
    )
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(row.get(key, "")) for key in head) + " |")
    print(f"{wrong} outputs differ; {seconds} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""An estimate of a call's time: cycles on AVR, instructions elsewhere. It settles ties and nothing else.

Fitted to dense layers and elementwise operators on the emulated ATmega328P and Cortex-M3 at -Os, guards not
tripped (docs/search.md says how near it comes). float32 is counted in software, for a core without an FPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from minun_pio.ops import REGISTRY
from minun_pio.ops.operator import Binding, Call

Linear = Mapping[tuple[str, bool], tuple[float, float]]

AVR_LINEAR: Linear = {
    ("codes are values", False): (12, 20),
    ("codes are values, in tiles", False): (24, 40),
    ("table", False): (48, 90),
    ("table", True): (115, 400),
    ("table, in tiles", False): (62, 120),
    ("table, in tiles", True): (110, 630),
    ("piecewise", False): (130, 280),
    ("piecewise", True): (130, 95),
    ("piecewise, in tiles", False): (115, 355),
    ("piecewise, in tiles", True): (115, 270),
    ("integer", False): (12, 0),
    ("integer", True): (37, 0),
    ("integer, mixed", False): (68, 0),
    ("integer, mixed", True): (65, 0),
    ("quantised", False): (22, 0),
    ("quantised", True): (300, 0),
    ("float32", True): (308, 0),
    ("exact", False): (765, 0),
    ("exact", True): (765, 0),
}
"""By kernel, and whether the inputs are wider than 8 bits: for each product, and for each input decoded.
`mixed`: inputs and weights of different widths."""

ARM_LINEAR: Linear = {
    ("codes are values", False): (2.1, 10),
    ("codes are values, in tiles", False): (2.1, 22),
    ("table", False): (3.5, 20),
    ("table", True): (4, 57),
    ("piecewise", False): (6.6, 55),
    ("piecewise", True): (6.6, 35),
    ("integer", False): (2.4, 0),
    ("integer", True): (2.4, 0),
    ("integer, mixed", False): (3.5, 0),
    ("integer, mixed", True): (2.4, 0),
    ("quantised", False): (2.9, 0),
    ("quantised", True): (10, 0),
    ("float32", True): (98, 0),
    ("exact", False): (46, 0),
    ("exact", True): (46, 0),
}

ELEMENT: Mapping[str, tuple[float, float, float, float]] = {
    "table": (16, 16, 5, 5),
    "curve": (310, 310, 25, 25),
    "computed": (1750, 2400, 122, 114),
    "add": (700, 1250, 112, 87),
    "sub": (700, 1250, 112, 87),
    "mul": (405, 1100, 80, 65),
    "scale_shift": (2800, 1750, 340, 118),
    "move": (17, 17, 7, 7),
    "squared_distance": (120, 170, 15, 15),
    "bonsai_tree": (395, 395, 14, 14),
    "sparse_dense": (1300, 150, 97, 9),
    "other": (700, 1250, 112, 87),
}
"""By kernel or operator: for each element (squared_distance: each term; bonsai_tree: each matrix element;
sparse_dense: each weight kept), on AVR in posits and in fixed-point, elsewhere in posits and in fixed-point.
`move` is what keeps its codes; `other` rounds once for each element."""

ROUNDED = (400.0, 80.0)  # for each output of a sum
CALLED = (350.0, 100.0)
TILE_ROWS = (8, 16)
LINEAR = ("dense", "conv", "conv_transpose", "matmul")
_EXACT_TO_INTEGER = 2.4  # what the integer kernels of squared_distance and bonsai_tree gain over exact sums
_DECODED_EACH_TIME = 1.2  # sparse_dense without scratch


def estimated_count(binding: Binding, call: Call) -> float:
    """Of one run of the call."""
    side = 0 if binding.core == "avr" else 1
    op, variant = binding.node.op, call.variant.partition(",")[0]
    if op in LINEAR:
        return CALLED[side] + _sums(binding, call, side)
    shapes = [shape for shape in (*binding.shapes, *binding.out_shapes) if shape is not None]
    elements = float(max((prod(shape) for shape in shapes), default=0))
    if op in ("squared_distance", "bonsai_tree"):
        kind = op
        elements = _terms(binding) * (1.0 if "integer" in call.variant else _EXACT_TO_INTEGER)
    elif op == "sparse_dense":
        kind = op
        elements = _kept(binding) * (_DECODED_EACH_TIME if "FromCodes" in call.function else 1.0)
    elif variant in ("table", "curve", "computed"):
        kind = variant
    elif REGISTRY[op].policy == "same":
        kind = "move"
    else:
        kind = op if op in ELEMENT else "other"
    fixed = any(fmt is not None and fmt.family == "fixed" for fmt in binding.formats)
    return CALLED[side] + ELEMENT[kind][2 * side + fixed] * elements


def _terms(binding: Binding) -> float:
    """Elements of the constants that are used: of a tree's matrices, those on one path from root to leaf."""
    terms = float(sum(prod(shape) for shape in binding.shapes[1:] if shape is not None))
    if binding.node.op == "bonsai_tree":
        depth = int(binding.node.attrs["depth"])
        terms *= (depth + 1) / (2 ** (depth + 1) - 1)
    return terms


def _kept(binding: Binding) -> float:
    """A sparse layer's weights that are not zero, for each row of inputs."""
    weights = binding.constants[1]
    rows = prod(binding.out_shapes[0]) // max(1, binding.out_shapes[0][-1])
    return 0.0 if weights is None else float(rows * np.count_nonzero(weights))


def _sums(binding: Binding, call: Call, side: int) -> float:
    """Products, inputs decoded and outputs rounded."""
    outputs, inputs = prod(binding.out_shapes[0]), prod(binding.shapes[0] or ())
    products, decoded = _products(binding), float(inputs)
    if binding.node.op in ("conv", "conv_transpose"):  # each position's window
        decoded = products / max(1, binding.out_shapes[0][-1])
    wide, wide_weights = _wide(binding, 0), _wide(binding, 1)
    table = (AVR_LINEAR, ARM_LINEAR)[side]
    variant = call.variant.partition(",")[0]
    if variant == "integer" and wide != wide_weights:
        variant = "integer, mixed"
    if "in tiles" in call.variant:
        decoded *= -(-binding.out_shapes[0][-1] // TILE_ROWS[side])
        variant = f"{variant}, in tiles" if (f"{variant}, in tiles", wide) in table else variant
    product, decode = table.get((variant, wide)) or table["exact", wide]
    return product * products + decode * decoded + ROUNDED[side] * outputs


def _wide(binding: Binding, index: int) -> bool:
    fmt = binding.formats[index]
    return fmt is not None and fmt.bits > 8


def _products(binding: Binding) -> float:
    outputs, weights = prod(binding.out_shapes[0]), binding.shapes[1] or ()
    op, shape = binding.node.op, binding.shapes[0] or ()
    if op == "conv_transpose":
        return float(prod(shape) * prod(weights[:-1]))
    if op == "matmul":
        return float(outputs * shape[-1])
    return float(outputs * prod(weights[1:]))

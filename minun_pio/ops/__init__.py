# SPDX-License-Identifier: Apache-2.0
"""The operators. `REGISTRY` maps each operator's name to its one instance.

To add an operator: write `ops/<op>.py` with a module constant `OPERATOR`, and name the module in `_MODULES`.
"""

from __future__ import annotations

from importlib import import_module

from minun_pio.ops.operator import Operator

# one line a module, alphabetical; each has `OPERATOR` or `OPERATORS` (a tuple)
_MODULES: tuple[str, ...] = (
    "argmax",
    "bonsai_tree",
    "clip",
    "concat",
    "conv",
    "conv_transpose",
    "convert",
    "dense",
    "elementwise_binary",
    "elementwise_unary",
    "expand",
    "gather",
    "matmul",
    "norms",
    "pad",
    "pooling",
    "reductions",
    "reshape",
    "resize",
    "reverse",
    "scale_shift",
    "scan",
    "sign",
    "slice",
    "softmax",
    "sparse_dense",
    "split",
    "squared_distance",
    "transpose",
)


def _load() -> dict[str, Operator]:
    registry: dict[str, Operator] = {}
    for module_name in _MODULES:
        module = import_module(f"minun_pio.ops.{module_name}")
        found = getattr(module, "OPERATORS", None) or (module.OPERATOR,)
        for operator in found:
            registry[operator.name] = operator
    return registry


REGISTRY: dict[str, Operator] = _load()

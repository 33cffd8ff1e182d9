# SPDX-License-Identifier: Apache-2.0
"""Traits of a network's nodes, each asked for once: an operator may have to prove something of weights."""

from __future__ import annotations

from typing import Any

from minun_pio.ops.operator import Binding, Traits
from minun_pio.simulate.assign import operator_of


class TraitsOf:
    """Remembers by node, formats and core. One instance serves one network, through a whole search."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Traits] = {}

    def __call__(self, prefix: str, binding: Binding) -> Traits:
        """The traits of the node in the loop of `prefix`."""
        node = binding.node
        operands = (node.op, node.inputs, binding.formats, binding.out_formats)
        key = (prefix + node.name, operands, binding.core, binding.small_scratch)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = operator_of(node).traits(binding)
        return found

# SPDX-License-Identifier: Apache-2.0
"""When a loop's next state may be written over the old one."""

from __future__ import annotations

from collections.abc import Callable

from minun_pio.ir import Graph, Node


def in_place_safe(
    body: Graph,
    state: str,
    output: str,
    whole_view: Callable[[Node], bool],
    in_place: Callable[[Node], tuple[tuple[int, int], ...]],
) -> bool:
    """Whether `output` (state's next value) can be written where `state` lives, with no copy.

    All readers of the state come before the node that writes the output, or that node is itself a reader
    whose kernel works in place. A state that is itself an output of the body is read at the very end.
    """
    if state == output:
        return True
    if state in body.outputs:
        return False
    writer = body.producer(output)
    while writer is not None and whole_view(writer):
        output = writer.inputs[0]
        writer = body.producer(output)
    if writer is None:
        return output == state
    if writer.body is not None:
        return False
    names = {state}
    written = False
    for node in body.nodes:
        reads = [k for k, name in enumerate(node.inputs) if name in names]
        if reads and whole_view(node):
            names.add(node.outputs[0])
            if node.outputs[0] in body.outputs:
                return False
        elif reads and written:
            return False
        elif reads and node is writer:
            pairs = in_place(node)
            at = node.outputs.index(output)
            if any((k, at) not in pairs for k in reads):
                return False
        if node is writer:
            written = True
    return True

# SPDX-License-Identifier: Apache-2.0
"""The rungs that stage I chooses from: what a family's low and high width mean for every tensor."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Mapping

from minun_pio.config.fields import nearest
from minun_pio.config.model import FIXED_SOFT_LIMITS, POSIT_SOFT_LIMITS, Formats
from minun_pio.errors import MinunError
from minun_pio.ir import Graph
from minun_pio.numerics.affine import Affine, affine_bias, affine_for_range, affine_for_weights
from minun_pio.numerics.fixed import fixed_for_range
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.format import Format
from minun_pio.numerics.parse import parse_format
from minun_pio.numerics.posit import Posit
from minun_pio.numerics.tflite_softmax import LOG_SHARES, SHARES, UNIT_VECTOR
from minun_pio.search.bracket import WIDTHS
from minun_pio.search.space import Group, Rung, Space
from minun_pio.simulate.assign import Scoped, format_groups, real_tensors, walk
from minun_pio.simulate.reference import Range

LOW_SCALE_OFFSETS = (0, -1, -2)
_EXPONENT_SIZES = {8: (0, 2), 16: (1, 2)}  # other widths: es = 2

_AFFINE_OUTPUTS = {
    "sigmoid": Affine(8, (1 / 256,), -128),
    "softmax": SHARES[8],
    "log_softmax": LOG_SHARES,
    "tanh": Affine(8, (1 / 128,), 0),
    "l2_norm": UNIT_VECTOR,
}  # formats that TensorFlow Lite prescribes
_WEIGHT_AXIS = {"dense": None, "sparse_dense": None, "conv": 0, "conv_transpose": 0}

Ranges = Mapping[str, Range]


def space_of(graph: Graph, formats: Formats, ranges: Ranges, bracketing: bool = False) -> Space:
    """Groups and rungs of a network. `ranges` are every tensor's least and greatest value in the float run.

    With `bracketing` the rungs are all of the widths {8, 9, 10, 12, 16} that the family has. Raises
    MinunError where `formats.keep_high` names no tensor.
    """
    tensors = {scoped.name: scoped for scoped in real_tensors(graph)}
    every_group = tuple(_group(tensors, members) for members in format_groups(graph))
    names = tuple(member for group in every_group for member in group.members)
    ranges = _joined(every_group, ranges)
    kept = _kept(every_group, formats.keep_high)
    groups = tuple(group for group in every_group if group not in kept)
    low, high = _width(formats.low, 8), _width(formats.high, 16)
    float32 = Rung("float32", 32, dict.fromkeys(names, Float32()))
    if formats.family == "float32":
        return Space(groups, (float32,), (float32,), float32)
    if formats.family == "int8":
        affine = affine_rung(graph, ranges)
        return Space(groups, (affine,), (affine,), float32)
    if bracketing:
        widths = WIDTHS if formats.family == "posit" else (8, 16)
        every = tuple(
            rung for width in widths for rung in _rungs(formats.family, width, names, ranges, width == 8)
        )
        return Space(groups, every[:-1], every[-1:], float32, kept)
    return Space(
        groups,
        _rungs(formats.family, low, names, ranges, low_rung=True),
        _rungs(formats.family, high, names, ranges, low_rung=False),
        float32,
        kept,
    )


def _kept(groups: tuple[Group, ...], patterns: tuple[str, ...]) -> tuple[Group, ...]:
    """The groups of the tensors that `formats.keep_high` names."""
    wanted: set[str] = set()
    names = [name for group in groups for name in group.members]
    for pattern in patterns:
        found = fnmatch.filter(names, pattern) if pattern not in names else [pattern]
        if not found:
            near = nearest(pattern, names)
            hint = f"did you mean '{near}'?" if near else "`minun evaluate --layers` lists them"
            raise MinunError(
                "config.unknown-tensor", f"'formats.keep_high' names no tensor '{pattern}'; {hint}"
            )
        wanted.update(found)
    return tuple(group for group in groups if wanted.intersection(group.members))


def _joined(groups: tuple[Group, ...], ranges: Ranges) -> dict[str, Range]:
    """One range for the tensors of a group, which share one format."""
    joined: dict[str, Range] = {}
    for group in groups:
        low = min(ranges[name].low for name in group.members)
        high = max(ranges[name].high for name in group.members)
        joined.update(dict.fromkeys(group.members, Range(low, high)))
    return joined


def soft_limits(formats: Formats, given: tuple[float, ...] | None) -> tuple[float, ...]:
    """The soft-limit factors that stage III tries."""
    if given is not None:
        return given
    return POSIT_SOFT_LIMITS if formats.family == "posit" else FIXED_SOFT_LIMITS


def _width(given: int | str | None, default: int) -> int | str:
    return default if given is None else given


def _group(tensors: Mapping[str, Scoped], members: tuple[str, ...]) -> Group:
    elements = max(tensors[name].tensor.elements for name in members)
    return Group(members[0], members, elements, all(tensors[name].role == "constant" for name in members))


def _rungs(
    family: str, width: int | str, names: tuple[str, ...], ranges: Ranges, low_rung: bool
) -> tuple[Rung, ...]:
    if isinstance(width, str):
        fmt = parse_format(width)
        return (Rung(fmt.name, fmt.bits, dict.fromkeys(names, fmt)),)
    if family == "posit":
        choices = [Posit(width, es) for es in _EXPONENT_SIZES.get(width, (2,))]
        return tuple(Rung(fmt.name, width, dict.fromkeys(names, fmt)) for fmt in choices)
    offsets = LOW_SCALE_OFFSETS if low_rung else (0,)
    return tuple(fixed_rung(names, ranges, width, offset) for offset in offsets)


def fixed_rung(names: tuple[str, ...], ranges: Ranges, width: int, offset: int) -> Rung:
    """Fixed-point of one width: a scale per tensor from its largest magnitude, moved by `offset`."""
    formats: dict[str, Format] = {
        name: fixed_for_range(ranges[name].magnitude, width, offset) for name in names
    }
    suffix = f" scale{offset:+d}" if offset else ""
    return Rung(f"fixed<{width}>{suffix}", width, formats)


def affine_rung(graph: Graph, ranges: Ranges) -> Rung:
    """Zero-skew int8 as TensorFlow Lite defines it; tensors that came quantised keep their own format.

    A group has one format, and an average keeps its input's, whose range holds its output's.
    """
    formats: dict[str, Format] = {}
    together = {name: members for members in format_groups(graph) for name in members}
    for scoped in real_tensors(graph):
        found = ranges[scoped.name]
        formats[scoped.name] = affine_for_range(found.low, found.high)
    for prefix, inside, node in walk(graph):
        if node.op in _AFFINE_OUTPUTS:
            formats.update(dict.fromkeys(together[prefix + node.outputs[0]], _AFFINE_OUTPUTS[node.op]))
        if node.op == "average_pool":
            same = formats[prefix + node.inputs[0]]
            formats.update(dict.fromkeys(together[prefix + node.outputs[0]], same))
        if node.op in _WEIGHT_AXIS and node.inputs[1] in inside.constants:
            weights = inside.constants[node.inputs[1]]
            formats[prefix + node.inputs[1]] = affine_for_weights(weights, _WEIGHT_AXIS[node.op])
    formats.update({name: fmt for name, fmt in graph.quantised.items() if name in formats})
    formats.update(_biases(graph, formats))
    return Rung("int8", 8, formats)


def _biases(graph: Graph, formats: Mapping[str, Format]) -> dict[str, Format]:
    """The constant biases in int32, at the scale of their product; one that several nodes read stays as it is
    and is converted for each."""
    nodes = list(walk(graph))
    readers = Counter(prefix + name for prefix, _, node in nodes for name in node.inputs)
    found: dict[str, Format] = {}
    for prefix, inside, node in nodes:
        if node.op not in _WEIGHT_AXIS or len(node.inputs) < 3 or node.inputs[2] not in inside.constants:
            continue
        x, w, bias = (prefix + name for name in node.inputs[:3])
        x_format, w_format = formats.get(x), formats.get(w)
        if isinstance(x_format, Affine) and isinstance(w_format, Affine) and readers[bias] == 1:
            found[bias] = affine_bias(x_format, w_format)
    return {name: fmt for name, fmt in found.items() if name not in graph.quantised}

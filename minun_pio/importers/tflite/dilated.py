# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions that exporters write as SPACE_TO_BATCH_ND, a plain convolution and BATCH_TO_SPACE_ND.

The block splits the image into its phases, the convolution runs on each, and the phases are put together:
that is one convolution with the block as its dilation, tap for tap, and with the pads of the split less the
crops of the join. Of a sequence (1, steps, channels), EXPAND_DIMS and SQUEEZE, or two RESHAPEs, stand around
the convolution. After it there may also be functions of one value, and arithmetic with constants per channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from minun_pio.importers.tflite.model import TfModel, TfOperator

_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
_RESHAPES = frozenset({"RESHAPE", "EXPAND_DIMS", "SQUEEZE"})
_POINTWISE = frozenset(
    {"RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "ELU", "LEAKY_RELU", "HARD_SWISH", "GELU", "ABS"}
)
_PER_CHANNEL = frozenset({"ADD", "SUB", "MUL", "PRELU"})
_LONGEST = 12  # operators between the split and the join

Readers = Mapping[int, list[int]]
"""For every tensor the operators that read it, by their index; -1 stands for the model's outputs."""


@dataclass(frozen=True)
class _Chain:
    """A split, the operators up to its join, and which of them is the convolution."""

    split: TfOperator
    middle: tuple[TfOperator, ...]
    join: TfOperator
    conv: int


def together(model: TfModel) -> TfModel:
    """The model with every such chain as one dilated convolution; what is not exactly one stays as it is."""
    splits = [op for op in model.operators if op.op == "SPACE_TO_BATCH_ND"]
    if not splits:
        return model
    readers: dict[int, list[int]] = {index: [-1] for index in model.outputs}
    for op in model.operators:
        for index in op.inputs:
            readers.setdefault(index, []).append(op.index)
    changed: dict[int, TfOperator | None] = {}
    for split in splits:
        chain = _chain(model, split, readers)
        if chain is not None:
            changed |= _dilated(model, chain)
    operators = [changed.get(op.index, op) for op in model.operators]
    return replace(model, operators=tuple(op for op in operators if op is not None))


def _chain(model: TfModel, split: TfOperator, readers: Readers) -> _Chain | None:
    middle: list[TfOperator] = []
    current, conv = split, -1
    while len(middle) <= _LONGEST and len(current.outputs) == 1:
        source = current.outputs[0]
        following = readers.get(source, [])
        if len(following) != 1 or following[0] <= current.index:
            return None
        op = model.operators[following[0]]
        if not _alike(model, current, op, source):
            return None
        if op.op == "BATCH_TO_SPACE_ND":
            return _Chain(split, tuple(middle), op, conv) if conv >= 0 else None
        if op.op in _CONVOLUTIONS and conv < 0 and op.inputs[0] == source:
            conv = len(middle)
        elif op.op not in _RESHAPES and (conv < 0 or not _by_channel(model, op, source)):
            return None
        middle.append(op)
        current = op
    return None


def _alike(model: TfModel, before: TfOperator, op: TfOperator, source: int) -> bool:
    """Whether an operator that moves keeps the scale of what it reads; the others may change it."""
    for mover, read in ((before, before.inputs[:1]), (op, (source,))):
        if mover.op in _RESHAPES or mover.op in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"):
            pair = [model.tensors[index] for index in (*read, *mover.outputs[:1]) if index >= 0]
            if len(pair) != 2 or (pair[0].scales, pair[0].zeros) != (pair[1].scales, pair[1].zeros):
                return False
    return True


def _by_channel(model: TfModel, op: TfOperator, source: int) -> bool:
    """Whether the operator treats every place of the image alike."""
    if op.op in _POINTWISE:
        return True
    if op.op not in _PER_CHANNEL or len(op.inputs) != 2 or min(op.inputs) < 0:
        return False
    (other,) = (model.tensors[index] for index in op.inputs if index != source)
    rank = len(model.tensors[source].shape)
    return other.data is not None and len(other.shape) <= rank and set(other.shape[:-1]) <= {1}


def _numbers(model: TfModel, op: TfOperator, place: int) -> list[int]:
    """A short constant input of integers; empty when it is none."""
    if place >= len(op.inputs) or op.inputs[place] < 0:
        return []
    data = model.tensors[op.inputs[place]].data
    if data is None or data.dtype.kind not in "iu" or data.size > 16:
        return []
    return [int(item) for item in data.reshape(-1)]


def _dilated(model: TfModel, chain: _Chain) -> dict[int, TfOperator | None]:
    """The chain's operators by index, None for those that go; empty when it is no dilated convolution."""
    if not chain.split.inputs or chain.split.inputs[0] < 0:
        return {}
    source = model.tensors[chain.split.inputs[0]].shape
    block, pads, back, crops = (
        _numbers(model, op, place) for op in (chain.split, chain.join) for place in (1, 2)
    )
    count = len(block)
    if source[:1] != (1,) or not 0 < count <= len(source) - 2 or block != back:
        return {}
    if not len(pads) == len(crops) == 2 * count or min(block) < 1 or min(*pads, *crops) < 0:
        return {}
    image = [n + pads[2 * k] + pads[2 * k + 1] for k, n in enumerate(source[1 : 1 + count])]
    phases = [n // b if n % b == 0 else 0 for n, b in zip(image, block, strict=True)]
    if 0 in phases:
        return {}
    reshaping = any(op.op in _RESHAPES for op in chain.middle)
    first = int(not reshaping) if len(source) == 4 else _place(model, chain, source, phases)
    if first == 0:
        return {}
    axes = {
        first + k - 1: (block[k], pads[2 * k : 2 * k + 2], crops[2 * k : 2 * k + 2]) for k in range(count)
    }
    options = _options(model, chain.middle[chain.conv], axes)
    if not options:
        return {}
    made = []
    for k, op in enumerate(chain.middle):
        if k == chain.conv:
            op = _with(op, options)
        elif op.op in _RESHAPES:
            wide = (1, 1, *source[1:]) if first == 2 else (1, source[1], 1, source[2])
            shape = wide if k < chain.conv else (1, -1, model.tensors[op.outputs[0]].shape[-1])
            op = replace(_with(op, {"NewShapeAsNumpy": shape}), op="RESHAPE", inputs=op.inputs[:1])
        made.append(op)
    made[0] = replace(made[0], inputs=(chain.split.inputs[0], *made[0].inputs[1:]))
    made[-1] = replace(made[-1], outputs=chain.join.outputs)
    return {chain.split.index: None, **{op.index: op for op in made}, chain.join.index: None}


def _place(model: TfModel, chain: _Chain, source: tuple[int, ...], steps: list[int]) -> int:
    """Which axis of the convolution's image a sequence's steps are, 1 or 2; 0 when there is no telling."""
    reshapes = [k for k, op in enumerate(chain.middle) if op.op in _RESHAPES]
    if len(source) != 3 or len(reshapes) != 2 or not reshapes[0] < chain.conv < reshapes[1]:
        return 0
    wide, filtered, narrow = (
        model.tensors[chain.middle[k].outputs[0]].shape for k in (reshapes[0], chain.conv, reshapes[1])
    )
    if len(filtered) != 4:
        return 0
    batch = filtered[0]
    for place, other in ((2, 1), (1, 2)):
        expected = [batch, steps[0], source[2]]
        expected.insert(other, 1)
        if wide == tuple(expected) and narrow == (batch, filtered[place], filtered[3]):
            return place
    return 0


def _options(
    model: TfModel, conv: TfOperator, axes: Mapping[int, tuple[int, list[int], list[int]]]
) -> dict[str, Any]:
    """The convolution's options with dilations and pads; empty where a crop takes more than there was added.

    `axes` has block, pads and crops of the image's axes 0 and 1 that are split.
    """
    kernel = model.tensors[conv.inputs[1]].shape[1:3] if len(conv.inputs) > 1 and conv.inputs[1] >= 0 else ()
    if len(kernel) != 2:
        return {}
    before, after, made = [], [], {}
    for axis, letter in enumerate("HW"):
        block, pads, crops = axes.get(axis, (1, [0, 0], [0, 0]))
        inner = int(conv.options(f"Dilation{letter}Factor", 1))
        if int(conv.options(f"Stride{letter}", 1)) != 1 or inner < 1:
            return {}
        same = (kernel[axis] - 1) * inner if conv.options("Padding", 0) == 0 else 0
        before.append(pads[0] + same // 2 * block - crops[0])
        after.append(pads[1] + (same - same // 2) * block - crops[1])
        made[f"Dilation{letter}Factor"] = inner * block
    if min(*before, *after) < 0:
        return {}
    return {**made, "ExplicitPads": (before[0], before[1], after[0], after[1])}


def _with(op: TfOperator, options: Mapping[str, Any]) -> TfOperator:
    """The operator with some of its options replaced."""
    before = op.options
    return replace(op, options=lambda key, default: options[key] if key in options else before(key, default))

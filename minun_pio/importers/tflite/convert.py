# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite model to our `Graph`. An int8 model's own formats are kept in `Graph.quantised`: with
them the result is the interpreter's, bit for bit; the search may as well choose others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.importers.builder import DAMAGE, GraphBuilder
from minun_pio.importers.tflite import blocks, elementwise, linear, movement, picking
from minun_pio.importers.tflite.context import Context, Handler, dequantised
from minun_pio.importers.tflite.dilated import together
from minun_pio.importers.tflite.folding import FOLDABLE, folded
from minun_pio.importers.tflite.model import TfModel, TfOperator, read_tflite
from minun_pio.ir import Graph

HANDLERS: Mapping[str, Handler] = {
    **linear.HANDLERS,
    **elementwise.HANDLERS,
    **movement.HANDLERS,
    **picking.HANDLERS,
    **blocks.HANDLERS,
}


def load_tflite(path: Path, *, outputs: Sequence[str] = (), name: str = "") -> Graph:
    """The network of a .tflite file. `outputs` chooses outputs by name. Raises MinunError."""
    return convert(read_tflite(Path(path)), outputs=outputs, name=name)


def convert(model: TfModel, *, outputs: Sequence[str] = (), name: str = "") -> Graph:
    """As `load_tflite`, of a model that has been read."""
    for op in model.operators:
        if op.op not in HANDLERS and op.op not in FOLDABLE:
            near = difflib.get_close_matches(op.op, list(HANDLERS), n=3, cutoff=0.5)
            hint = (
                f"nearest that work: {', '.join(near)}" if near else "docs/importers.md lists those that are"
            )
            raise MinunError(
                "tflite.unsupported-operator",
                f"operator {op.op} (version {op.version}) is not supported; {hint}",
                f"{model.file}: operator {op.index}",
            )
    model = together(model)
    builder = GraphBuilder(name or "model", model.file)
    ctx = Context(model, builder)
    for index in model.inputs:
        info = model.tensors[index]
        shape = tuple(extent if axis or extent > 0 else 1 for axis, extent in enumerate(info.shape))
        ctx.tensors[index] = builder.input(info.label or "input", shape)
        _note(ctx, None, index)
    for op in model.operators:
        _run(ctx, op)
    chosen = [_named(ctx, wanted) for wanted in outputs] or list(model.outputs)
    results = []
    for index in chosen:
        if index not in ctx.tensors:
            constant = index in ctx.values or model.tensors[index].data is not None
            what = "is constant; choose another" if constant else "is written by no operator"
            raise MinunError("tflite.malformed", f"output '{model.tensors[index].name}' {what}", model.file)
        results.append(ctx.tensors[index])
    return builder.finish(results)


def _run(ctx: Context, op: TfOperator) -> None:
    if any(ctx.model.tensors[index].data is not None for index in op.outputs):
        raise ctx.refusal(op, "it writes a constant", "convert again", "tflite.malformed")
    if op.op == "DEQUANTIZE" and ctx.known(op, 0) is not None:
        info, stored = ctx.info(op, 0), ctx.value(op, 0, "value")
        ctx.values[op.outputs[0]] = dequantised(stored, info) if info.scales else stored.astype(np.float64)
        return
    if any(index in ctx.tensors for index in op.outputs):
        raise ctx.refusal(
            op, "it writes a tensor that is written already", "convert again", "tflite.malformed"
        )
    try:
        with np.errstate(all="ignore"):
            if folded(ctx, op):
                return
            if op.op not in HANDLERS:
                raise ctx.refusal(
                    op, "its inputs are computed", "it works on constants", "tflite.not-constant"
                )
            made = HANDLERS[op.op](ctx, op)
    except DAMAGE as error:
        reason = f"its inputs or options do not fit together ({type(error).__name__})"
        raise ctx.refusal(op, reason, "convert again", "tflite.malformed") from None
    for index, tensor in zip(op.outputs, made, strict=False):
        ctx.tensors[index] = tensor
        _note(ctx, op, index)


def _note(ctx: Context, op: TfOperator | None, index: int) -> None:
    """Remember the format that the file gives a tensor."""
    place = op or TfOperator(0, "INPUT", 0, (), (), lambda key, default: default)
    fmt = ctx.format(place, ctx.model.tensors[index])
    if fmt is not None:
        ctx.builder.quantised[ctx.tensors[index]] = fmt


def _named(ctx: Context, wanted: str) -> int:
    names = {ctx.model.tensors[index].label: index for index in ctx.tensors}
    names.update({ctx.model.tensors[index].name: index for index in ctx.tensors})
    if wanted not in names:
        near = difflib.get_close_matches(wanted, list(names), n=1)
        own = ", ".join(ctx.model.tensors[index].label for index in ctx.model.outputs)
        hint = f"did you mean '{near[0]}'?" if near else f"the file's own are {own}"
        raise MinunError("tflite.output", f"no output '{wanted}'; {hint}", ctx.model.file)
    return names[wanted]

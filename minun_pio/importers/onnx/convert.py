# SPDX-License-Identifier: Apache-2.0
"""ONNX graph to our `Graph`: folds what is known, hands every other node to its handler.

Nothing is built before every operator of the file has been looked at: an unknown one is refused first, by
name.
Tensors keep ONNX's layout; a handler of a spatial operator puts transposes around it, which `passes` then
cancels.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minun_pio.errors import MinunError
from minun_pio.importers.builder import DAMAGE, GraphBuilder
from minun_pio.importers.onnx import (
    activations,
    arithmetic,
    attention,
    dense,
    loops,
    movement,
    normalisation,
    quantisation,
    recurrent,
    reductions,
    resizing,
    windows,
)
from minun_pio.importers.onnx.context import Context, Handler
from minun_pio.importers.onnx.folding import FOLDABLE, fold
from minun_pio.importers.onnx.model import OnnxGraph, OnnxInput, OnnxModel, OnnxNode, read_onnx
from minun_pio.ir import Graph, Shape

HANDLERS: Mapping[str, Handler] = {
    **activations.HANDLERS,
    **arithmetic.HANDLERS,
    **attention.HANDLERS,
    **dense.HANDLERS,
    **loops.HANDLERS,
    **movement.HANDLERS,
    **normalisation.HANDLERS,
    **quantisation.HANDLERS,
    **recurrent.HANDLERS,
    **reductions.HANDLERS,
    **resizing.HANDLERS,
    **windows.HANDLERS,
}
"""Every ONNX operator that can become nodes of the graph. `FOLDABLE` has those that constants may go
through."""

_WITHOUT_EFFECT = frozenset(
    {
        *("activation_alpha", "activation_beta", "consumed_inputs", "cubic_coeff_a", "exclude_outside"),
        *("extrapolation_value", "is_test", "momentum", "num_outputs", "output_height", "output_width"),
        *("precision", "ratio", "round_mode", "saturate", "seed", "softmax_precision", "spatial"),
        *("stash_type", "storage_order", "to"),
    }
)
"""Attributes that change nothing at inference in the forms that are taken."""

_BY_SHAPE = frozenset({"Shape", "Size"})

_INSTEAD = {
    "Loop": "a Scan with a fixed number of steps works",
    "If": "export the branch that inference takes",
    "NonMaxSuppression": "do it in the firmware on the network's outputs",
    "TopK": "ArgMax works",
    "Einsum": "MatMul and Transpose work",
    "DynamicQuantizeLinear": "QuantizeLinear with constant scales works",
    "ConvInteger": "Conv between QuantizeLinear and DequantizeLinear works",
    "MatMulInteger": "MatMul between QuantizeLinear and DequantizeLinear works",
    "GridSample": "Resize works",
}


def load_onnx(
    path: Path, *, input_shape: Shape | None = None, outputs: Sequence[str] = (), name: str = ""
) -> Graph:
    """The network of an ONNX file.

    `input_shape` makes the (one) input's dynamic dimensions static; without it a dynamic first dimension is
    1.
    `outputs` chooses outputs by name. Raises MinunError: malformed file, or what cannot be taken and why.
    """
    return convert(read_onnx(Path(path)), input_shape=input_shape, outputs=outputs, name=name)


def convert(
    model: OnnxModel, *, input_shape: Shape | None = None, outputs: Sequence[str] = (), name: str = ""
) -> Graph:
    """As `load_onnx`, of a model that has been read."""
    refuse_unknown(model)
    graph = model.graph
    builder = GraphBuilder(name or graph.name or "model", model.file)
    ctx = Context(model.file, model.opset, builder, convert_body, uses=uses(graph))
    for given in graph.inputs:
        ctx.tensors[given.name] = builder.input(given.name, _static(model, given, input_shape))
        _note_type(ctx, given)
    run(ctx, graph)
    for wanted in outputs:
        if wanted not in ctx.tensors:
            near = difflib.get_close_matches(wanted, list(ctx.tensors), n=1)
            hint = f"did you mean '{near[0]}'?" if near else "the file's own are " + ", ".join(graph.outputs)
            raise MinunError("onnx.output", f"no output '{wanted}'; {hint}", model.file)
    results: list[str] = []
    for output in tuple(outputs) or graph.outputs:
        if output in ctx.codes:
            raise MinunError(
                "onnx.unsupported-form",
                f"output '{output}' is quantised codes; end the graph with DequantizeLinear",
                model.file,
            )
        if output in ctx.values:
            raise MinunError(
                "onnx.unsupported-form",
                f"output '{output}' does not depend on an input; drop it from the model",
                model.file,
            )
        results.append(ctx.tensors[output])
    return builder.finish(results)


def uses(graph: OnnxGraph) -> Counter[str]:
    """How often each name is read."""
    return Counter(name for node in graph.nodes for name in node.inputs) + Counter(graph.outputs)


def _static(model: OnnxModel, given: OnnxInput, input_shape: Shape | None) -> Shape:
    place = f"{model.file}: input '{given.name}'"
    if given.shape is None:
        if input_shape is not None and len(model.graph.inputs) == 1:
            return input_shape
        raise MinunError("onnx.dynamic", "has no shape; give one as source.input", place)
    if input_shape is not None and len(model.graph.inputs) == 1:
        fits = len(input_shape) == len(given.shape) and all(
            not isinstance(declared, int) or declared in (extent, 0)
            for declared, extent in zip(given.shape, input_shape, strict=True)
        )
        if not fits:
            raise MinunError(
                "onnx.shape", f"is declared {list(given.shape)}, source.input says {list(input_shape)}", place
            )
        return input_shape
    extents: list[int] = []
    for axis, extent in enumerate(given.shape):
        if isinstance(extent, int) and extent > 0:
            extents.append(extent)
        elif axis == 0:
            extents.append(1)
        else:
            label = f" ('{extent}')" if isinstance(extent, str) else ""
            raise MinunError(
                "onnx.dynamic", f"axis {axis}{label} is dynamic; give the shape as source.input", place
            )
    return tuple(extents)


def _note_type(ctx: Context, given: OnnxInput) -> None:
    if given.dtype is None or given.dtype.kind in "iu":
        ctx.indices.add(given.name)
    elif given.dtype.kind != "f" and given.dtype.name != "bfloat16":
        raise MinunError(
            "onnx.type",
            f"holds {given.dtype}; real numbers or integer indices are expected",
            f"{ctx.file}: input '{given.name}'",
        )


def refuse_unknown(model: OnnxModel) -> None:
    """Refuse the first operator that nothing can take, before any work."""
    pending = [model.graph]
    while pending:
        for node in pending.pop().nodes:
            if node.op not in HANDLERS and node.op not in FOLDABLE and node.op not in _BY_SHAPE:
                raise unsupported(model.file, model.opset, node)
            pending.extend(value for value in node.attrs.values() if isinstance(value, OnnxGraph))


def unsupported(file: str, opset: int, node: OnnxNode) -> MinunError:
    """The refusal of an operator as such."""
    instead = _INSTEAD.get(node.op)
    if instead is None:
        near = difflib.get_close_matches(node.op, list(HANDLERS), n=3, cutoff=0.5)
        instead = (
            f"nearest that work: {', '.join(near)}" if near else "docs/importers.md lists those that are"
        )
    return MinunError(
        "onnx.unsupported-operator",
        f"operator {node.op} (operator set {opset}) is not supported; {instead}",
        f"{file}: node '{node.name}'",
    )


def run(ctx: Context, graph: OnnxGraph) -> None:
    """Convert all nodes of `graph` into the context's builder."""
    ctx.values.update(graph.constants)
    for node in graph.nodes:
        if not node.outputs:
            raise ctx.refusal(node, "it has no outputs", "export the model again", "onnx.malformed")
        with _damage(ctx, node):
            if _by_shape(ctx, node) or _folded(ctx, node):
                continue
        handler = HANDLERS.get(node.op)
        if handler is None:
            unknown = next((n for n in node.inputs if n and n not in ctx.values), "")
            raise ctx.refusal(
                node,
                f"its input '{unknown}' is not a constant",
                "it is taken only where everything it reads is known at import",
                "onnx.not-constant",
            )
        watched = _Watched(node.attrs)
        node = replace(node, attrs=watched)
        with _damage(ctx, node):
            made = handler(ctx, node)
        strange = sorted(set(node.attrs) - watched.read - _WITHOUT_EFFECT)
        if strange:
            raise ctx.refusal(
                node,
                f"attribute '{strange[0]}' is not known for it",
                "without it, it works",
                "onnx.attribute",
            )
        for output, tensor in zip(node.outputs, made, strict=False):
            if output and tensor:
                ctx.tensors[output] = tensor
        missing = [
            o for o, t in zip(node.outputs, [*made, *[""] * len(node.outputs)], strict=False) if o and not t
        ]
        for output in missing:
            if ctx.uses.get(output) and output not in ctx.codes:
                raise ctx.refusal(node, f"its output '{output}' is not made at inference", "do not use it")


@contextmanager
def _damage(ctx: Context, node: OnnxNode) -> Iterator[None]:
    """What goes wrong inside is the file's fault, in one line."""
    try:
        with np.errstate(all="ignore"):
            yield
    except DAMAGE as error:
        raise ctx.refusal(
            node,
            f"its inputs or attributes do not fit together ({type(error).__name__})",
            "export the model again",
            "onnx.malformed",
        ) from None


class _Watched(dict[str, Any]):
    """Attributes that remember who was asked for: one that no handler knows might change the result."""

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        super().__init__(attrs)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)


def _by_shape(ctx: Context, node: OnnxNode) -> bool:
    if node.op not in _BY_SHAPE:
        return False
    shape = ctx.input_shape(node, 0)
    if node.op == "Size":
        ctx.values[node.outputs[0]] = np.asarray(int(np.prod(shape)), dtype=np.int64)
    else:
        start, end = int(node.attrs.get("start", 0)), node.attrs.get("end")
        ctx.values[node.outputs[0]] = np.asarray(shape[start:end], dtype=np.int64)
    return True


def _folded(ctx: Context, node: OnnxNode) -> bool:
    if any(name and name not in ctx.values for name in node.inputs):
        if node.op == "CastLike" and node.inputs[0] in ctx.values:
            ctx.values[node.outputs[0]] = ctx.values[node.inputs[0]].astype(np.float32)
            return True
        return False
    inputs = [ctx.values[name] if name else None for name in node.inputs]
    results = fold(node, inputs, ctx.opset, ctx.where(node))
    if results is None:
        return False
    if node.op == "DequantizeLinear":
        quantisation.note_constant(ctx, node)
    for output, value in zip(node.outputs, results, strict=False):
        if output:
            ctx.values[output] = value
    return True


def convert_body(graph: OnnxGraph, outer: Context, inputs: Sequence[tuple[str, Shape]]) -> Graph:
    """A loop's body as a graph of its own: inputs with the shapes that the loop gives them. Constants of the
    enclosing graph are seen; its run-time tensors are not."""
    builder = GraphBuilder(graph.name or "body", outer.file)
    ctx = Context(outer.file, outer.opset, builder, convert_body, dict(outer.values), uses=uses(graph))
    for name, shape in inputs:
        ctx.values.pop(name, None)
        ctx.tensors[name] = builder.input(name, shape)
    run(ctx, graph)
    results = []
    for output in graph.outputs:
        if output in ctx.values:
            results.append(builder.constant(ctx.values[output].astype(np.float64), output))
        elif output in ctx.tensors:
            results.append(ctx.tensors[output])
        else:
            raise MinunError(
                "onnx.malformed", f"the loop body's output '{output}' is not written", outer.file
            )
    return builder.finish(results)

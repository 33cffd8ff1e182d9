# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet v1.1: our float path against onnxruntime, and 200 images in mixed 8 and 16-bit posits on the
host.

    pip install onnx onnxruntime pillow
    python benchmarks/squeezenet.py --json

The network is written as ONNX from the weights, so that both sides read one file. The mixed run keeps the
first and
the last convolution and all weights' sums exact as always; activations of 8-bit tensors are posit<8,2>, of
16-bit ones
posit<16,2>. Weights and images come from `shared/data/squeezenet11` beside the checkout, or `--data`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.onnx import convert, parse_onnx
from minun_pio.ir import Graph
from minun_pio.numerics.format import Format
from minun_pio.numerics.parse import parse_format
from minun_pio.passes import optimise
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import run

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "squeezenet11"
MEAN_BGR = (104.0, 117.0, 123.0)
FLOAT_TOLERANCE, MINUTES = 1e-4, 10.0


def images(data: Path, count: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Centre crops of 227, BGR less the mean, (n, 3, 227, 227), and labels."""
    from PIL import Image

    with np.load(data / "imagenet200.npz") as pack:
        jpeg, offset, y = pack["jpeg"].tobytes(), pack["offset"], pack["y"][:count]
    result = np.empty((len(y), 3, 227, 227), dtype=np.float32)
    for k in range(len(y)):
        image = Image.open(io.BytesIO(jpeg[offset[k] : offset[k + 1]])).convert("RGB")
        left, top = (image.width - 227) // 2, (image.height - 227) // 2
        pixels = np.asarray(image.crop((left, top, left + 227, top + 227)), dtype=np.float32)
        result[k] = (pixels[:, :, ::-1] - np.asarray(MEAN_BGR, dtype=np.float32)).transpose(2, 0, 1)
    return result, y


def network(data: Path) -> bytes:
    """SqueezeNet v1.1 as an ONNX file, from the weights (out, in, kh, kw)."""
    from onnx import TensorProto, helper, numpy_helper

    with np.load(data / "weights_oihw_f32.npz") as pack:
        weights = {name: pack[name] for name in pack.files}
    nodes: list[Any] = []
    tensors: list[Any] = []

    def conv(x: str, name: str, **attrs: Any) -> str:
        inputs = [x]
        for part in ("w", "b"):
            tensors.append(numpy_helper.from_array(weights[f"{name}/{part}"], f"{name}/{part}"))
            inputs.append(f"{name}/{part}")
        nodes.append(helper.make_node("Conv", inputs, [f"{name}/c"], name, **attrs))
        nodes.append(helper.make_node("Relu", [f"{name}/c"], [f"{name}/r"], f"{name}/relu"))
        return f"{name}/r"

    def pool(x: str, name: str) -> str:
        attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
        nodes.append(helper.make_node("MaxPool", [x], [name], name, **attrs))
        return name

    def fire(x: str, name: str) -> str:
        squeezed = conv(x, f"{name}/squeeze1x1")
        parts = [conv(squeezed, f"{name}/expand1x1"), conv(squeezed, f"{name}/expand3x3", pads=[1, 1, 1, 1])]
        nodes.append(helper.make_node("Concat", parts, [name], name, axis=1))
        return name

    x = pool(conv("image", "conv1", strides=[2, 2]), "pool1")
    x = pool(fire(fire(x, "fire2"), "fire3"), "pool3")
    x = pool(fire(fire(x, "fire4"), "fire5"), "pool5")
    for name in ("fire6", "fire7", "fire8", "fire9"):
        x = fire(x, name)
    x = conv(x, "conv10")
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["average"], "average"))
    nodes.append(helper.make_node("Flatten", ["average"], ["logits"], "flatten"))
    graph = helper.make_graph(
        nodes,
        "squeezenet11",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 227, 227])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, weights["conv10/w"].shape[0]])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def mixed(graph: Graph) -> dict[str, Format]:
    """Activations up to a quarter of the largest in 16 bits, larger ones and all weights in 8."""
    low, high = parse_format("posit<8,2>"), parse_format("posit<16,2>")
    largest = max(tensor.elements for name, tensor in graph.tensors.items() if name not in graph.constants)
    chosen = uniform(graph, low)
    for name in chosen:
        if (
            name in graph.tensors
            and name not in graph.constants
            and 4 * graph.tensors[name].elements <= largest
        ):
            chosen[name] = high
    return chosen


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"no folder {options.data}: weights and images are not part of the project", file=sys.stderr)
        return 2
    import onnxruntime

    content = network(options.data)
    graph = optimise(convert(parse_onnx(content, "squeezenet11.onnx", None)))
    x, y = images(options.data, options.samples)
    engine = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    theirs = np.concatenate([engine.run(None, {"image": image[None]})[0] for image in x])
    few = min(16, len(x))
    ours = reference(graph, x[:few])[graph.outputs[0]].reshape(few, -1)
    apart = float(np.max(np.abs(ours - theirs[:few])) / np.max(np.abs(theirs[:few])))
    started = time.perf_counter()
    simulated = run(graph, mixed(graph), x.astype(np.float64))
    minutes = (time.perf_counter() - started) / 60
    scores = simulated.values(graph.outputs[0]).reshape(len(y), -1)
    report = {
        "samples": len(y),
        "operators": len(graph.nodes),
        "transposes": [list(graph.tensors[n.outputs[0]].shape) for n in graph.nodes if n.op == "transpose"],
        "float_relative_difference": apart,
        "top1_float": round(100 * float(np.mean(theirs.argmax(axis=1) == y)), 2),
        "top1_posit_8_16": round(100 * float(np.mean(scores.argmax(axis=1) == y)), 2),
        "minutes_posit": round(minutes, 2),
        "met": apart <= FLOAT_TOLERANCE and minutes * 200 / len(y) < MINUTES,
    }
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print("\n".join(f"{key}: {value}" for key, value in report.items()))
    return 0 if report["met"] else 1


if __name__ == "__main__":
    sys.exit(main())

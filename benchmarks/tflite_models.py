# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's int8 models, our simulation against TensorFlow Lite's interpreter, byte for byte.

    pip install ai-edge-litert pillow
    python benchmarks/tflite_models.py --json
    python benchmarks/tflite_models.py --boards --json     # 20 inputs each on the emulated STM32H747

The interpreter runs its reference kernels (BUILTIN_REF; the XNNPACK delegate rounds otherwise). Models and
samples
come from a folder `shared/data/mlperf_tiny` beside the checkout, or `--data`; they are not part of the
project.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.tflite import load_tflite
from minun_pio.passes import optimise
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import run_codes

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mlperf_tiny"


@dataclass(frozen=True)
class Result:
    """`equal` of `samples` have every output byte equal to the interpreter's."""

    model: str
    samples: int
    equal: int
    accuracy_ours: float
    accuracy_interpreter: float
    accuracy_float_model: float
    seconds_ours: float
    met: bool


def interpreter(path: Path, samples: NDArray[Any]) -> NDArray[Any]:
    """Output codes of the reference kernels, (n, classes)."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    engine = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    engine.allocate_tensors()
    given, made = engine.get_input_details()[0], engine.get_output_details()[0]
    outputs = []
    for sample in samples:
        engine.set_tensor(given["index"], sample.reshape(given["shape"]))
        engine.invoke()
        outputs.append(engine.get_tensor(made["index"]).reshape(-1).copy())
    return np.array(outputs)


def on_board(name: str, path: Path, codes: NDArray[Any]) -> dict[str, Any]:
    """The model in its own formats on the STM32H747's core: which of the samples' bytes are the host's."""
    from board_batches import BOARDS, EQUAL, Job, outcomes

    graph = optimise(load_tflite(path))
    shape = graph.tensors[graph.inputs[0]].shape
    batches = [codes[start : start + 10].reshape(-1, *shape) for start in range(0, len(codes), 10)]
    jobs = [Job(str(k), graph, graph.quantised, {graph.inputs[0]: batch}) for k, batch in enumerate(batches)]
    found = outcomes(BOARDS["stm32h747"], jobs, 1)
    bad = {key: state for key, state in found.items() if state != EQUAL}
    return {"model": name, "board": "stm32h747", "samples": len(codes), "not_equal": bad, "met": not bad}


def compare(name: str, path: Path, float_path: Path, codes: NDArray[Any], labels: NDArray[Any]) -> Result:
    """Both on all samples; the float model on as many, for the accuracy."""
    theirs = interpreter(path, codes)
    graph = optimise(load_tflite(path))
    started = time.perf_counter()
    shape = graph.tensors[graph.inputs[0]].shape
    run = run_codes(legalise(graph, graph.quantised), {graph.inputs[0]: codes.reshape(-1, *shape)})
    seconds = time.perf_counter() - started
    ours = np.asarray(run.codes[graph.outputs[0]]).reshape(len(codes), -1)
    floats = optimise(load_tflite(float_path))
    real = graph.quantised[graph.inputs[0]].decode(codes)
    if name == "resnet8":
        real = codes.astype(np.float64) + 128  # the float model takes pixels
    scores = reference(floats, real)[floats.outputs[0]].reshape(len(codes), -1)
    equal = int(np.sum(np.all(ours == theirs, axis=1)))

    def accuracy(values: NDArray[Any]) -> float:
        return round(100 * float(np.mean(values.argmax(axis=1) == labels)), 2)

    return Result(
        name, len(codes), equal, accuracy(ours), accuracy(theirs), accuracy(scores), round(seconds, 2),
        equal == len(codes),
    )  # fmt: skip


def keywords(data: Path, limit: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keyword spotting's clips, stored as the model's input codes, and labels."""
    with np.load(data / "kws01.npz") as pack:
        return pack["x"][:limit], pack["y"][:limit]


def pictures(data: Path, limit: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """CIFAR-10 images as ResNet-8's input codes (scale 1, zero point -128), and labels."""
    from PIL import Image

    with np.load(data / "cifar10_jpeg1000.npz") as pack:
        jpeg, offset, y = pack["jpeg"].tobytes(), pack["offset"], pack["y"][:limit]
    parts = [jpeg[offset[k] : offset[k + 1]] for k in range(len(y))]
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(part)).convert("RGB")) for part in parts])
    return (pixels.astype(np.int16) - 128).astype(np.int8), y


SETS = (
    ("kws", "kws_ref_model.tflite", "kws_ref_model_float32.tflite", keywords),
    ("resnet8", "pretrainedResnet_quant.tflite", "pretrainedResnet.tflite", pictures),
)


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--boards", action="store_true", help="on the emulated board against the host")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"no folder {options.data}: the models are not part of the project", file=sys.stderr)
        return 2
    if options.boards:
        rows = [
            on_board(name, options.data / file, load(options.data, 20)[0]) for name, file, _, load in SETS
        ]
        print(json.dumps({"boards": rows}, indent=1))
        return 0 if all(row["met"] for row in rows) else 1
    results = [
        compare(name, options.data / file, options.data / floats, *load(options.data, options.samples))
        for name, file, floats, load in SETS
    ]
    if options.json:
        print(json.dumps({"results": [asdict(result) for result in results]}, indent=1))
    else:
        for r in results:
            print(
                f"{r.model}: {r.equal} of {r.samples} outputs equal to the byte; accuracy {r.accuracy_ours} %"
            )
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())

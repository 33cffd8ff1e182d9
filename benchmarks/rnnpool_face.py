# SPDX-License-Identifier: Apache-2.0
"""RNNPool head detectors (Saha et al., NeurIPS 2020): our float outputs of face2 against its float reference.

    python benchmarks/rnnpool_face.py --json

Both networks are layer lists: a convolution, RNNPool over patches, inverted bottlenecks, and heads that give
the confidence and the box of every place. Their int16 weights become floats here, at run time. face2 has two
reference rows of 18,000 outputs: the 95th percentile of the absolute error must be at most 0.6 in each. face3
has none: it must import, run, and tell heads from what is no head, on 15 photographs (needs pillow), by the
area under the ROC curve of its best layer. Weights, rows and photographs come from `shared/data/rnnpool_face`
beside the checkout, or `--data`; they are not part of the project.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.importers.layers import load_layers
from minun_pio.ir import Graph
from minun_pio.passes import optimise
from minun_pio.simulate.reference import reference

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "rnnpool_face"
IMAGE = (1, 240, 320, 1)
LIMIT, PERCENT = 0.6, 95
LEAST_AREA = 0.85
GREY, MEAN = (0.299, 0.587, 0.114), (123.0, 117.0, 104.0)  # of red, green, blue

Floats = NDArray[np.float64]

CELL = ("W", "U", "Bg", "Bh")
BLOCK = ("F1", "W1", "B1", "F2", "W2", "B2", "F3", "W3", "B3")
HEAD = ("NW", "CW", "CB", "LW", "LB")


@dataclass(frozen=True)
class Face:
    """A detector: which blocks have heads, and what its whole-number weights mean. An exponent e makes the
    value w / 2^e of each; they are in the order of CELL, BLOCK and HEAD. face2's are those of its float
    weights. Of face3's the activations' formats fix the sum of a filter's and its scale's; how that is shared
    out between the two changes no output."""

    name: str
    conv: tuple[int, int, int]  # filter, scale, bias
    cells: tuple[tuple[int, ...], tuple[int, ...]]
    blocks: tuple[tuple[int, ...], ...]
    heads: Mapping[int, tuple[int | None, ...]]  # behind which block, counted from 1; None: not normalised


FACE2 = Face(
    "face2",
    (14, 20, 8),
    ((14, 14, 14, 15), (15, 14, 15, 15)),
    (
        (15, 11, 15, 15, 10, 14, 16, 14, 13),
        (16, 12, 14, 16, 10, 15, 16, 14, 14),
        (16, 13, 14, 16, 10, 14, 16, 13, 13),
        (16, 13, 13, 16, 11, 15, 16, 13, 14),
        (17, 13, 13, 16, 10, 15, 17, 12, 14),
        (17, 13, 13, 16, 11, 14, 17, 12, 14),
        (17, 14, 12, 16, 11, 14, 17, 12, 14),
        (17, 14, 12, 16, 10, 14, 16, 11, 14),
        (17, 14, 11, 17, 11, 13, 17, 12, 14),
        (9, 4, 14, 9, 2, 14, 10, 4, 15),
        (10, 5, 13, 9, 2, 14, 10, 3, 15),
        (10, 5, 13, 9, 3, 14, 10, 4, 15),
        (10, 4, 7, 9, 2, 7, 11, 4, 8),
        (10, 4, 6, 9, 2, 7, 10, 3, 8),
    ),
    {
        4: (13, 17, 15, 15, 14),
        8: (13, 16, 15, 16, 16),
        11: (14, 17, 15, 16, 17),
        14: (None, 18, 15, 18, 16),
    },
)
FACE3 = Face(
    "face3",
    (14, 20, 9),
    ((14, 14, 14, 14), (14, 14, 13, 14)),
    (
        (15, 11, 15, 15, 10, 14, 16, 13, 13),
        (16, 12, 14, 16, 10, 14, 16, 12, 14),
        (9, 6, 12, 9, 2, 15, 10, 3, 15),
        (9, 6, 12, 9, 3, 15, 10, 3, 15),
    ),
    {1: (11, 16, 16, 16, 14), 2: (12, 18, 15, 17, 16), 4: (12, 18, 14, 18, 15)},
)


@dataclass(frozen=True)
class Stored:
    """A detector's whole numbers and sizes, as they lie in the data."""

    arrays: Mapping[str, NDArray[np.int16]]
    sizes: Mapping[str, int]

    def floats(self, name: str, exponent: int | None) -> Floats:
        assert exponent is not None
        return self.arrays[name].astype(np.float64) / 2.0**exponent


def stored(face: Face, data: Path) -> Stored:
    with np.load(data / f"{face.name}_int16.npz") as pack:
        arrays = {name: pack[name] for name in pack.files}
    return Stored(arrays, json.loads((data / f"{face.name}_scalars.json").read_text())["scalars"])


@dataclass(frozen=True)
class Entry:
    """One layer of a list, as model.yaml would have it."""

    kind: str
    attrs: Mapping[str, Any]
    line: int


class Builder:
    """A layer list and its arrays, side by side."""

    def __init__(self) -> None:
        self.layers: list[Entry] = []
        self.arrays: dict[str, Floats] = {}

    def add(self, kind: str, **options: Any) -> None:
        """A layer; an option that is an array is stored, and its name takes its place."""
        for key, value in options.items():
            if isinstance(value, np.ndarray):
                name = f"{len(self.layers)}.{key}"
                self.arrays[name], options[key] = value, name
        renamed = {"from" if key == "source" else key: value for key, value in options.items()}
        self.layers.append(Entry(kind, renamed, len(self.layers) + 1))


def _stem(b: Builder, face: Face, s: Stored) -> None:
    filters, scale, bias = (
        s.floats(f"conv2D/CBR1{part}", e) for part, e in zip("FWB", face.conv, strict=True)
    )
    w = filters.reshape(3, 3, 1, 4) * scale
    b.add("conv", weights=w, bias=bias * scale, layout="hwio", strides=2, pads=1, activation="relu6")
    options: dict[str, Any] = {}
    for n, exponents in enumerate(face.cells, 1):
        w, u, gate, update = (
            s.floats(f"rnn{n}/{part}{n}", e) for part, e in zip(CELL, exponents, strict=True)
        )
        hidden = gate.size
        options |= {f"w{n}": w.reshape(hidden, -1).T, f"u{n}": u.reshape(hidden, hidden).T}
        options |= {f"bg{n}": gate, f"bh{n}": update, f"zeta{n}": 1.0, f"nu{n}": 0.0, f"gates{n}": "values"}
    patch = s.sizes["rnn1/PATCH_DIM"]
    b.add("rnnpool", patch=patch, strides=patch // 2, **options)
    b.add("pad", pads=[0, 0, 1, 1], mode="edge")  # the last row and column of patches once more


def _block(b: Builder, face: Face, s: Stored, n: int) -> None:
    part = {
        name: s.floats(f"mbconv{n}/L{n}_{name}", e) for name, e in zip(BLOCK, face.blocks[n - 1], strict=True)
    }
    size = {name: s.sizes[f"mbconv{n}/L{n}_{name}"] for name in ("CIN", "CTEMP", "COUT", "HSTRIDE")}
    shapes = {"F1": (size["CIN"], size["CTEMP"]), "F2": (-1, 3, 3), "F3": (size["CTEMP"], size["COUT"])}
    options = {name.lower(): values.reshape(shapes.get(name, -1)) for name, values in part.items()}
    residual = f"mbconv{n}/L{n}_Scten1" in s.sizes
    b.add("mbconv", strides=size["HSTRIDE"], residual=residual, name=f"block{n}", **options)


def _head(b: Builder, face: Face, s: Stored, n: int, block: int) -> list[str]:
    """The head behind a block: names of confidences and of boxes. The norm's gains go into the filters."""
    exponents = dict(zip(HEAD, face.heads[block], strict=True))
    channels = s.sizes[f"mbconv{block}/L{block}_COUT"]
    gains, source = np.ones(channels), f"block{block}"
    if exponents["NW"] is not None:
        gains, source = s.floats(f"detection{n}/D{n}NW", exponents["NW"]), f"normal{n}"
        b.add("l2_norm", source=f"block{block}", name=source)
    found = {}
    for part in "CL":
        w = s.floats(f"detection{n}/D{n}{part}W", exponents[f"{part}W"]).reshape(3, 3, channels, -1)
        found[part] = w * gains[:, None], s.floats(f"detection{n}/D{n}{part}B", exponents[f"{part}B"])
    conf, conf_bias = found["C"]
    options: dict[str, Any] = {"layout": "hwio", "pads": 1, "source": source}
    if conf_bias.size == 2:
        b.add("conv", weights=conf, bias=conf_bias, name=f"conf{n}", **options)
    else:  # three ways to be background, of which the likeliest counts
        height, width = s.sizes[f"mbconv{block}/L{block}_HOUT"], s.sizes[f"mbconv{block}/L{block}_WOUT"]
        b.add("conv", weights=conf[..., 3:], bias=conf_bias[3:], name=f"face{n}", **options)
        b.add("conv", weights=conf[..., :3], bias=conf_bias[:3], **options)
        b.add("reshape", shape=[1, height * width, 3, 1])
        b.add("max_pool", kernel=[1, 3])
        b.add("reshape", shape=[1, height, width, 1])
        b.add("concat", name=f"conf{n}", **{"with": f"face{n}"})
    b.add("conv", weights=found["L"][0], bias=found["L"][1], name=f"box{n}", **options)
    return [f"conf{n}", f"box{n}"]


def network(face: Face, data: Path) -> Graph:
    """The detector's graph; outputs are the confidences of all heads, then the boxes of all heads."""
    s, b, heads = stored(face, data), Builder(), []
    _stem(b, face, s)
    for n in range(1, len(face.blocks) + 1):
        _block(b, face, s, n)
    for n, block in enumerate(face.heads, 1):
        heads.append(_head(b, face, s, n, block))
    outputs = [name for names in zip(*heads, strict=True) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        np.savez(path, **b.arrays)  # type: ignore[arg-type]
        return optimise(load_layers(b.layers, path, IMAGE, name=face.name, outputs=outputs))


def answers(graph: Graph, x: Floats) -> Floats:
    """All outputs of one image, one after another."""
    values = reference(graph, x.reshape(IMAGE))
    return np.concatenate([values[name].reshape(-1) for name in graph.outputs])


def row(data: Path, name: str) -> tuple[Floats, Floats]:
    """A reference row: its image and its 18,000 outputs."""
    with np.load(data / f"{name}.npz") as pack:
        values = pack["rows"][0].astype(np.float64)
    pixels = int(np.prod(IMAGE))
    return values[-pixels:], values[:-pixels]


def photographs(data: Path, every: int) -> Iterator[tuple[Floats, Floats]]:
    """Grey images less their mean, and the heads on each: centre x, y, width, height in pixels of IMAGE."""
    from PIL import Image

    boxes = json.loads((data / "scut_head100_boxes.json").read_text())
    with np.load(data / "scut_head100.npz") as pack:
        jpeg, offset, names = pack["jpeg"].tobytes(), pack["offset"], pack["name"]
    for k in range(0, len(names), every):
        pixels = np.asarray(Image.open(io.BytesIO(jpeg[offset[k] : offset[k + 1]])).convert("RGB"))
        found = boxes[str(names[k])]
        corner = np.array(found["boxes_xywh"], dtype=np.float64).reshape(-1, 4)
        corner *= np.tile(np.array(IMAGE[2:0:-1]) / found["orig_wh"], 2)
        corner[:, :2] += corner[:, 2:] / 2
        yield (pixels - np.array(MEAN)) @ np.array(GREY), corner


def areas(face: Face, graph: Graph, data: Path, every: int = 7) -> list[float]:
    """For each layer that detects, the chance that a place in the middle of a head scores higher than one
    outside of all; 0.5 is guessing."""
    confidences = graph.outputs[: len(face.heads)]
    scores: list[list[Floats]] = [[] for _ in confidences]
    labels: list[list[NDArray[np.bool_]]] = [[] for _ in confidences]
    for image, heads in photographs(data, every):
        values = reference(graph, image.reshape(IMAGE))
        for k, name in enumerate(confidences):
            _, height, width, _ = graph.tensors[name].shape
            step = np.array((IMAGE[2] / width, IMAGE[1] / height))
            place = (np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1) + 0.5) * step
            near = np.abs(place[:, :, None] - heads[:, :2]) < np.maximum(heads[:, 2:] / 4, step / 2)
            conf = values[name].reshape(height, width, 2)
            scores[k].append((conf[..., 1] - conf[..., 0]).reshape(-1))
            labels[k].append(near.all(axis=-1).any(axis=-1).reshape(-1))
    return [_area(np.concatenate(s), np.concatenate(y)) for s, y in zip(scores, labels, strict=True)]


def _area(scores: Floats, labels: NDArray[np.bool_]) -> float:
    rank = np.empty(scores.size)
    rank[scores.argsort()] = np.arange(1, scores.size + 1)
    yes = int(labels.sum())
    return float((rank[labels].sum() - yes * (yes + 1) / 2) / (yes * (labels.size - yes)))


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"no folder {options.data}: the detectors are not part of the project", file=sys.stderr)
        return 2
    started = time.perf_counter()
    graph = network(FACE2, options.data)
    errors = {}
    for name in ("face2_train", "face2_test"):
        image, wanted = row(options.data, name)
        error = np.abs(answers(graph, image) - wanted)
        errors[name] = {
            "outputs": error.size,
            f"error_p{PERCENT}": round(float(np.percentile(error, PERCENT)), 4),
            "error_median": round(float(np.median(error)), 4),
        }
    small = network(FACE3, options.data)
    area = {face.name: areas(face, g, options.data) for face, g in ((FACE2, graph), (FACE3, small))}
    met = all(e[f"error_p{PERCENT}"] <= LIMIT for e in errors.values())
    report = {
        "face2": errors,
        "limit": LIMIT,
        "operators": {"face2": len(graph.nodes), "face3": len(small.nodes)},
        "face3_outputs": sum(small.tensors[name].elements for name in small.outputs),
        "area_under_roc": {name: [round(value, 3) for value in values] for name, values in area.items()},
        "least_area": LEAST_AREA,
        "seconds": round(time.perf_counter() - started, 1),
        "met": met and max(area["face3"]) >= LEAST_AREA,
    }
    print(json.dumps(report, indent=1) if options.json else "\n".join(f"{k}: {v}" for k, v in report.items()))
    return 0 if report["met"] else 1


if __name__ == "__main__":
    sys.exit(main())

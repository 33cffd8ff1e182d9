# SPDX-License-Identifier: Apache-2.0
"""Make the data and the trained weights of this example again, the same bytes every time.

pip install numpy==2.4.6 scikit-learn==1.9.1 onnx==1.23.2
python train/train.py            # writes data/, protonn/protonn.npz, cnn/cnn.onnx; ten seconds
python train/train.py --check    # trains anew and compares with the files that are there
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zipfile
from pathlib import Path

import cnn
import numpy as np
import onnx
import protonn
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent.parent
TEST, CALIBRATION = 400, 200


def cnn_onnx(p: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The trained network as people export it: NCHW, `(1, 1, 8, 8)` in, `(1, 10)` scores out."""
    w1 = p["w1"].reshape(3, 3, 1, 8).transpose(3, 2, 0, 1)
    w2 = p["w2"].reshape(3, 3, 8, 16).transpose(3, 2, 0, 1)
    w3 = p["w3"].reshape(2, 2, 16, 10).transpose(3, 2, 0, 1).reshape(10, 64)
    constants = {
        "conv1.w": w1,
        "conv1.b": p["b1"],
        "conv2.w": w2,
        "conv2.b": p["b2"],
        "dense.w": w3,
        "dense.b": p["b3"],
    }
    nodes = [
        helper.make_node("Conv", ["image", "conv1.w", "conv1.b"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "conv2.w", "conv2.b"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool2", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "dense.w", "dense.b"], ["scores"], "dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits_cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="digits"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def make(folder: Path) -> None:
    """Train both models and write the four files under `folder`."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "protonn").mkdir(exist_ok=True)
    (folder / "cnn").mkdir(exist_ok=True)
    digits = load_digits()
    order = np.random.Generator(np.random.PCG64(3)).permutation(len(digits.data))
    x = digits.data[order] / 16.0
    y = digits.target[order].astype(np.int64)
    x_test, y_test, x_train, y_train = x[:TEST], y[:TEST], x[TEST:], y[TEST:]
    for name, xs, ys in (
        ("test", x_test, y_test),
        ("calibration", x_train[:CALIBRATION], y_train[:CALIBRATION]),
    ):
        np.savez_compressed(folder / "data" / f"{name}.npz", x=xs.astype(np.float32), y=ys.astype(np.uint8))
    weights = protonn.train(x_train, y_train)
    np.savez_compressed(folder / "protonn" / "protonn.npz", **weights)
    wide = {name: value.astype(np.float64) for name, value in weights.items()}
    guess = protonn.scores(x_test, wide, float(weights["gamma"])).argmax(axis=1)
    print(f"protonn: {100 * np.mean(guess == y_test):.2f} % of {TEST}")
    network = cnn.train(x_train, y_train)
    (folder / "cnn" / "cnn.onnx").write_bytes(cnn_onnx(network).SerializeToString(deterministic=True))
    wide = {name: value.astype(np.float64) for name, value in network.items()}
    guess = cnn.forward(x_test.reshape(-1, 8, 8, 1), wide)["scores"].argmax(axis=1)
    print(f"cnn: {100 * np.mean(guess == y_test):.2f} % of {TEST}")


def contents(path: Path) -> dict[str, bytes]:
    """What a file holds: of an NPZ the arrays unpacked, for each zlib compresses in its own way."""
    if path.suffix != ".npz":
        return {path.name: path.read_bytes()}
    with zipfile.ZipFile(path) as pack:
        return {name: pack.read(name) for name in pack.namelist()}


def check() -> int:
    """0 when training anew gives the files in this example, every array byte for byte."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        made = sorted(path.relative_to(folder) for path in Path(folder).rglob("*.*"))
        different = [str(p) for p in made if contents(Path(folder) / p) != contents(HERE / p)]
    print("different: " + ", ".join(different) if different else f"all {len(made)} files are the same")
    return 1 if different else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with the files that are there, write nothing"
    )
    sys.exit(check() if parser.parse_args().check else make(HERE))

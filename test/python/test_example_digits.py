# SPDX-License-Identifier: Apache-2.0
"""The quickstart: its files are what its training makes, and its models do what its pages say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minun_pio.config.read import read_model
from minun_pio.importers import import_graph
from minun_pio.numerics.parse import parse_format
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import run

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


@pytest.mark.timeout(600)
def test_training_again_gives_every_committed_array_byte_for_byte() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn has the data; pip install scikit-learn")
    pytest.importorskip("onnx", reason="the network is written with onnx; pip install onnx")
    command = [sys.executable, "-W", "ignore", str(DIGITS / "train" / "train.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "least"), [("protonn", 97.5), ("cnn", 98.0)])
def test_a_model_keeps_its_accuracy_in_float_and_in_16_bits(name: str, least: float) -> None:
    graph = import_graph(read_model(DIGITS / name / "model.yaml"))
    with np.load(DIGITS / "data" / "test.npz") as pack:
        x, y = pack["x"], pack["y"]
    assert len(y) >= 360

    def accuracy(values: np.ndarray) -> float:
        return 100 * float(np.mean(values.reshape(len(y), -1).argmax(axis=1) == y))

    in_float = accuracy(reference(graph, x)[graph.outputs[0]])
    in_posit = accuracy(run(graph, uniform(graph, parse_format("posit<16,1>")), x).values(graph.outputs[0]))
    assert in_float >= least
    assert in_posit >= in_float - 0.5


def test_calibration_and_test_samples_are_apart() -> None:
    with np.load(DIGITS / "data" / "test.npz") as test, np.load(DIGITS / "data" / "calibration.npz") as other:
        seen = {row.tobytes() for row in test["x"]}
        assert not any(row.tobytes() in seen for row in other["x"])
        assert set(test["y"]) == set(range(10))
        assert test["x"].min() == 0 and test["x"].max() == 1  # noqa: PT018


def test_the_convolutional_network_is_onnx_as_people_export_it() -> None:
    onnx = pytest.importorskip("onnx", reason="pip install onnx")
    model = onnx.load(DIGITS / "cnn" / "cnn.onnx")
    assert [node.op_type for node in model.graph.node] == [
        *("Conv", "Relu", "MaxPool", "Conv", "Relu", "MaxPool", "Flatten", "Gemm")
    ]
    graph = import_graph(read_model(DIGITS / "cnn" / "model.yaml"))
    assert [node.op for node in graph.nodes] == [
        *("reshape", "conv", "max_pool", "conv", "max_pool", "reshape", "dense")
    ]

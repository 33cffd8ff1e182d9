# SPDX-License-Identifier: Apache-2.0
"""RNNPool head detectors from their int16 weights, which are no part of the project: skipped without them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import rnnpool_face as faces

pytestmark = pytest.mark.skipif(
    not faces.DATA.is_dir(), reason="shared/data/rnnpool_face is not beside the checkout"
)


@pytest.mark.parametrize("name", ["face2_train", "face2_test"])
def test_face2_gives_its_float_reference(name: str) -> None:
    image, wanted = faces.row(faces.DATA, name)
    error = np.abs(faces.answers(faces.network(faces.FACE2, faces.DATA), image) - wanted)
    assert error.shape == (18000,)
    assert np.percentile(error, faces.PERCENT) <= faces.LIMIT


def test_face3_scores_heads_above_what_is_no_head() -> None:
    pytest.importorskip("PIL", reason="the photographs are JPEG; pip install pillow")
    graph = faces.network(faces.FACE3, faces.DATA)
    assert [graph.tensors[name].shape for name in graph.outputs] == [(1, 15, 20, 2)] * 3 + [
        (1, 15, 20, 4)
    ] * 3
    assert max(faces.areas(faces.FACE3, graph, faces.DATA, every=20)) >= faces.LEAST_AREA

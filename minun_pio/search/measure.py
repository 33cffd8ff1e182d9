# SPDX-License-Identifier: Apache-2.0
"""The measure of a real network: accuracy by exact simulation of the calibration set, costs as given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.config.dataset import Samples
from minun_pio.heartbeat import Tell
from minun_pio.ir import Graph
from minun_pio.search.space import Assignment, Costs, Packed
from minun_pio.simulate.assign import real_tensors
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import Cache, run

Array = NDArray[Any]
MAX_LOGGED = 4_000_000  # elements of one tensor that a heat map looks at


class SimulatedMeasure:
    """`Measure` of a graph on a set of samples.

    `costs` says what an assignment costs in bytes and time. `tell` hears how many assignments have been
    simulated.
    """

    def __init__(
        self,
        graph: Graph,
        samples: Samples,
        costs: Costs,
        tell: Tell | None = None,
    ) -> None:
        self.graph = graph
        self.samples = samples
        self._costs = costs
        self._cache: Cache = {}
        self._tell, self._simulated = tell, 0
        self.float_answer = reference(graph, samples.x)[graph.outputs[0]]
        self.float_accuracy = agreement(self.float_answer, samples.y, self.float_answer)

    def accuracy(self, assignment: Assignment) -> float:
        done = run(self.graph, assignment, self.samples.x, cache=self._cache)
        self._count()
        return agreement(done.values(self.graph.outputs[0]), self.samples.y, self.float_answer)

    def values(self, assignment: Assignment) -> Mapping[str, Array]:
        names = [scoped.name for scoped in real_tensors(self.graph)]
        samples = self.samples.first(self._logged_samples())
        done = run(self.graph, assignment, samples.x, keep=names, cache=self._cache)
        self._count()
        return {name: done.values(name) for name in names if name in done.codes}

    def _count(self) -> None:
        self._simulated += 1
        if self._tell is not None:
            self._tell(f"searching formats, {self._simulated} simulated on {len(self.samples)} samples")

    def ram(self, assignment: Assignment) -> int:
        return self._costs.ram(assignment)

    def flash(self, assignment: Assignment) -> int:
        return self._costs.flash(assignment)

    def packed(self, assignment: Assignment) -> Packed:
        return self._costs.packed(assignment)

    def _logged_samples(self) -> int:
        largest = max((s.tensor.elements for s in real_tensors(self.graph)), default=1)
        return max(1, MAX_LOGGED // largest)


def agreement(answer: Array, labels: NDArray[np.int64] | None, float_answer: Array) -> float:
    """A fraction, higher is better: correct classes where there are labels (of one score: class 1 above one
    half); without, classes equal to float32's; for an answer that is no vector of class scores, 1 less the
    relative error."""
    flat = np.asarray(answer).reshape(answer.shape[0], -1)
    if flat.shape[1] == 1 and np.issubdtype(float_answer.dtype, np.integer):
        picked = flat[:, 0]  # the network ends in argmax
        wanted = labels if labels is not None else np.asarray(float_answer).reshape(-1)
        return float(np.mean(picked == wanted))
    float_flat = np.asarray(float_answer, np.float64).reshape(answer.shape[0], -1)
    if labels is not None:
        picked = best_class(flat) if flat.shape[1] > 1 else np.where(np.isnan(flat), -1, flat > 0.5)[:, 0]
        return float(np.mean(picked == labels))
    if labels is None and sum(extent > 1 for extent in np.shape(float_answer)[1:]) == 1:
        return float(np.mean(best_class(flat) == best_class(float_flat)))
    spread = float(np.sqrt(np.mean((float_flat - float_flat.mean()) ** 2))) or 1.0
    error = float(np.sqrt(np.mean((np.where(np.isfinite(flat), flat, 0.0) - float_flat) ** 2)))
    return max(0.0, 1.0 - error / spread)


def best_class(scores: Array) -> NDArray[np.int64]:
    """The first greatest score of each row; a score that is not a number never wins."""
    return np.asarray(np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1), np.int64)

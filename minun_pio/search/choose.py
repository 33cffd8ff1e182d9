# SPDX-License-Identifier: Apache-2.0
"""From a model.yaml's wishes to an assignment: the one entrance to the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from minun_pio.config.dataset import Samples, load_samples
from minun_pio.config.model import ModelConfig, flash_budget, ram_budget
from minun_pio.errors import MinunError
from minun_pio.heartbeat import Tell
from minun_pio.ir import Graph
from minun_pio.search import STRATEGIES
from minun_pio.search.measure import SimulatedMeasure
from minun_pio.search.rungs import soft_limits, space_of
from minun_pio.search.space import Costs, Limits, Outcome, Space
from minun_pio.simulate.assign import index_tensors, real_tensors
from minun_pio.simulate.reference import Range, profile

SYNTHETIC_SAMPLES = 64


def choose(
    config: ModelConfig,
    graph: Graph,
    board_ram_bytes: int | None,
    board_flash_bytes: int | None,
    costs: Costs,
    tell: Tell | None = None,
) -> Outcome:
    """Formats for every real tensor of `graph`, by the strategy of model.yaml.

    `costs` says what an assignment costs on the board. `tell` hears how far the search is. Raises MinunError
    on data that do not serve; an outcome that does not fit is returned as such.
    """
    samples = calibration(config, graph)
    ranges = tensor_ranges(graph, samples)
    space = space_in(config, graph, ranges, bracketing=config.search.strategy == "bracket")
    limits = Limits(
        ram=config.search.ram if config.search.ram is not None else ram_budget(config, board_ram_bytes),
        flash=flash_budget(config, board_flash_bytes),
        soft=soft_limits(config.formats, config.search.soft_limits),
        tolerated_drop=config.search.tolerated_drop / 100,
    )
    if tell is not None:
        tell("searching formats")
    measure = SimulatedMeasure(graph, samples, costs, tell)
    outcome = STRATEGIES[config.search.strategy](space, measure, limits)
    outcome = replace(outcome, labelled=samples.y is not None)
    if config.data.calibration is None:
        note = f"no calibration data: {SYNTHETIC_SAMPLES} random samples, judged by float32's answers"
        outcome = replace(outcome, notes=(*outcome.notes, note))
    elif samples.y is None:
        note = "the calibration samples have no labels that serve: accuracies are agreement with float32"
        outcome = replace(outcome, notes=(*outcome.notes, note))
    return outcome


def space_in(
    config: ModelConfig, graph: Graph, ranges: Mapping[str, Range], bracketing: bool = False
) -> Space:
    """`space_of` what model.yaml wishes; a tensor to keep high that is not there is told with its line."""
    try:
        return space_of(graph, config.formats, ranges, bracketing)
    except MinunError as error:
        if error.code != "config.unknown-tensor":
            raise
        raise MinunError(error.code, error.message, config.where("formats.keep_high")) from None


def calibration(config: ModelConfig, graph: Graph) -> Samples:
    """The calibration samples; without any, random ones, which serve posits, float32 and a network that
    came quantised, whose scales are known."""
    inputs = {name: graph.tensors[name].shape for name in graph.inputs}
    if config.data.calibration is None:
        family = config.formats.family
        moved = (scoped.name for scoped in real_tensors(graph) if scoped.role != "constant")
        known = family == "int8" and all(name in graph.quantised for name in moved)
        if family in ("fixed", "int8") and not known:
            raise MinunError(
                "data.missing",
                f"family '{family}' needs 'data.calibration' to find its scales; add a file",
                config.where("data"),
            )
        generator = np.random.default_rng(20221029)
        drawn = {
            name: generator.standard_normal((SYNTHETIC_SAMPLES, *shape)) for name, shape in inputs.items()
        }
        if known:  # over all of each input's codes
            codes = {name: generator.integers(-128, 128, values.shape) for name, values in drawn.items()}
            drawn = {name: np.asarray(graph.quantised[name].decode(codes[name])) for name in drawn}
        return Samples(drawn, None)
    samples = load_samples(config, "calibration", inputs, classes_of(graph), is_binary(graph))
    return samples.first(config.search.samples)


def classes_of(graph: Graph) -> int | None:
    """How many classes the first output tells apart; None when it is not a vector of scores.

    An output of argmax tells apart as many as the scores that go into it.
    """
    name = graph.outputs[0]
    if name in index_tensors(graph):
        producer = graph.producer(name)
        while producer is not None and producer.op != "argmax":
            producer = graph.producer(producer.inputs[0])
        if producer is None:
            return None
        name = producer.inputs[0]
    elements = graph.tensors[name].elements
    shape = tuple(extent for extent in graph.tensors[name].shape if extent != 1)
    return elements if len(shape) == 1 else None


def is_binary(graph: Graph) -> bool:
    """Whether the first output is one sigmoid: class 1 above one half, where the labels are 0 and 1."""
    name = graph.outputs[0]
    producer = graph.producer(name)
    while producer is not None and producer.op in ("reshape", "transpose", "convert"):
        producer = graph.producer(producer.inputs[0])
    one = graph.tensors[name].elements == 1
    return one and producer is not None and producer.op in ("sigmoid", "hard_sigmoid")


def tensor_ranges(graph: Graph, samples: Samples) -> dict[str, Range]:
    """Least and greatest value of every tensor in the float run over the samples."""
    return profile(graph, samples.x)

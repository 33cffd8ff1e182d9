# SPDX-License-Identifier: Apache-2.0
"""From a read model.yaml to a Program: import, search, schedule, plan, gates, lowering.

What PlatformIO, CMake and `minun build` call through `generate`, which keeps the result in the lock file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from minun_pio.board.target import Target
from minun_pio.budgets import check_accuracy, check_flash, check_ram, check_reach
from minun_pio.config.dataset import Samples, load_samples
from minun_pio.config.model import Data, ModelConfig, flash_budget, ram_budget
from minun_pio.costs import Costs, input_memory
from minun_pio.emit.lower import lower
from minun_pio.emit.program import Program
from minun_pio.heartbeat import Tell
from minun_pio.ir import Graph
from minun_pio.report.lines import summary_line
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.search.assignment_json import assignment_json
from minun_pio.search.choose import calibration, choose, classes_of, is_binary
from minun_pio.search.measure import agreement
from minun_pio.search.space import Outcome
from minun_pio.simulate.assign import scoped_tensors
from minun_pio.simulate.legalise import Legal, legalise
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import Cache, encode_inputs, run_codes
from minun_pio.slow_path import SAMPLES, slow_paths

SELF_TEST_SAMPLES = 16

Choose = Callable[..., Outcome]


@dataclass(frozen=True)
class Built:
    """The program, and JSON that says what was decided and why (report, one line, lock)."""

    program: Program
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Accuracy:
    """Fractions over the evaluation samples: float64 reference, and the device's codes on the host."""

    samples: int
    float32: float
    host: float
    labelled: bool


def compile_model(
    config: ModelConfig,
    target: Target,
    *,
    graph: Graph | None = None,
    search: Choose | None = None,
    tell: Tell = lambda what: None,
) -> Built:
    """The program of a model for a board. Raises MinunError when a budget is not met or anything is wrong.

    `graph`: the network when it is already imported. `search`: (config, graph, board RAM, board flash, costs)
    -> Outcome; `choose` by default. `tell` hears what is being done.
    """
    network = import_network(config) if graph is None else graph
    samples = evaluation(config, network)
    cache: Cache = {}
    costs = Costs(network, target.core, config.memory)
    found = search or partial(choose, tell=tell)
    outcome = found(config, network, target.ram_bytes, target.flash_bytes, costs)
    legal = legalise(network, outcome.assignment)
    tell("placing the arena")
    placement = place(lay_out(legal, target.core, input_memory(config.memory)), config.memory)
    codes = encode_inputs(network, legal.formats, samples.first(SELF_TEST_SAMPLES).x)
    program = lower(placement, config.name, input_codes=codes, cache=cache)
    tell("measuring the evaluation samples")
    accuracy = measure(network, legal, samples, cache)
    ram, flash = ram_budget(config, target.ram_bytes), flash_budget(config, target.flash_bytes)
    check_ram(config, program, ram, target.ram_bytes)
    check_flash(config, program, flash, target.flash_bytes)
    check_reach([program], config.where("source"))
    check_accuracy(config, accuracy.host, accuracy.float32, accuracy.labelled)
    summary = summarise(config, target, program, outcome, accuracy, ram, flash, network)
    inputs = encode_inputs(network, legal.formats, samples.first(SAMPLES).x)
    summary["slow_path"] = [layer.to_json() for layer in slow_paths(placement.schedule, legal, inputs, cache)]
    return Built(program, summary)


def import_network(config: ModelConfig) -> Graph:
    """The network that model.yaml names, with the passes run."""
    from minun_pio.importers import import_graph

    return import_graph(config)


def evaluation(config: ModelConfig, graph: Graph) -> Samples:
    """The samples that accuracy is reported on: `data.evaluation`, else the calibration samples."""
    if config.data.evaluation is None:
        return calibration(config, graph)
    shapes = {name: graph.tensors[name].shape for name in graph.inputs}
    return load_samples(config, "evaluation", shapes, classes_of(graph), is_binary(graph))


def measure(graph: Graph, legal: Legal, samples: Samples, cache: Cache | None = None) -> Accuracy:
    """Accuracy of the network as the board computes it, and in real numbers, over the samples."""
    name = graph.outputs[0]
    wanted = reference(graph, samples.x)[name]
    done = run_codes(legal, encode_inputs(graph, legal.formats, samples.x), cache=cache)
    return Accuracy(
        samples=len(samples),
        float32=agreement(wanted, samples.y, wanted),
        host=agreement(done.values(name), samples.y, wanted),
        labelled=samples.y is not None,
    )


def summarise(
    config: ModelConfig,
    target: Target,
    program: Program,
    outcome: Outcome,
    accuracy: Accuracy,
    ram: int | None,
    flash: int | None,
    graph: Graph,
) -> dict[str, Any]:
    """What was decided, as JSON. Nothing that differs between two equal builds."""
    scoped = {s.name: s for s in scoped_tensors(graph)}
    found: dict[str, Any] = {
        "model": config.name,
        "target": target.key,
        "core": target.core,
        "strategy": outcome.strategy,
        "formats": {"low": outcome.low, "high": outcome.high, "promoted": list(outcome.promoted)},
        "tensors": [
            {
                "name": name,
                "format": fmt,
                "shape": list(scoped[name].tensor.shape) if name in scoped else None,
                "role": scoped[name].role if name in scoped else "converted",
            }
            for name, fmt in program.formats.items()
        ],
        "arena": {
            "bytes": program.arena.bytes,
            "lower_bound": program.arena.lower_bound,
            "status": program.arena.status,
            "stages": [{"name": s.name, "peak": s.peak, "live": list(s.live)} for s in program.arena.stages],
        },
        "ram_budget": ram,
        "flash_budget": flash,
        "flash": {
            "constants": program.flash.constants,
            "tables": program.flash.tables,
            "code_estimate": program.flash.code_estimate,
            "total": program.flash.total,
        },
        "accuracy": {
            "samples": accuracy.samples,
            "host": accuracy.host,
            "float32": accuracy.float32,
            "labelled": accuracy.labelled,
            "random": config.data == Data(),
        },
        "search": outcome.to_json(),
        "assignment": assignment_json(outcome.assignment),
    }
    found["line"] = summary_line(found)
    return found

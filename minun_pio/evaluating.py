# SPDX-License-Identifier: Apache-2.0
"""Accuracy and bytes of a model under several assignments: the locked one, uniform ones, float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minun_pio.board.target import Target
from minun_pio.build import evaluation, import_network
from minun_pio.config import ModelConfig, read_model
from minun_pio.config.model import Data
from minun_pio.costs import Costs, input_memory
from minun_pio.errors import MinunError
from minun_pio.heartbeat import Tell
from minun_pio.ir import Graph
from minun_pio.lock import Entry, Lookup
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.search.assignment_json import assignment_from_json
from minun_pio.search.choose import calibration, choose, space_in, tensor_ranges
from minun_pio.search.measure import SimulatedMeasure
from minun_pio.search.space import Assignment, Outcome
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.noise import noise
from minun_pio.simulate.run import encode_inputs
from minun_pio.slow_path import SAMPLES, slow_paths


def evaluate_model(model: Path, target: Target, entry: Entry | None) -> dict[str, Any]:
    """Rows of format choice, accuracy (fraction), arena and flash bytes, over the evaluation samples."""
    config = read_model(model)
    network = import_network(config)
    samples = evaluation(config, network)
    space = space_in(config, network, tensor_ranges(network, calibration(config, network)))
    costs = Costs(network, target.core, config.memory)
    measure = SimulatedMeasure(network, samples, costs)
    chosen: list[tuple[str, Assignment]] = [("float32", space.float32.formats)]
    chosen += [(rung.name, rung.formats) for rung in dict.fromkeys((*space.low, *space.high))]
    if entry is not None:
        chosen.append(("locked", assignment_from_json(entry.summary["assignment"])))
    rows = []
    for name, assignment in chosen:
        packed = measure.packed(assignment)
        rows.append(
            {
                "formats": name,
                "accuracy": measure.accuracy(assignment),
                "arena_bytes": packed.ram,
                "flash_bytes": packed.flash,
                "estimated_count": round(packed.count),
            }
        )
    slow = []
    if entry is not None:
        legal = legalise(network, assignment_from_json(entry.summary["assignment"]))
        placement = place(lay_out(legal, target.core, input_memory(config.memory)), config.memory)
        inputs = encode_inputs(network, legal.formats, samples.first(SAMPLES).x)
        slow = [found.to_json() for found in slow_paths(placement.schedule, legal, inputs)]
    return {
        "model": config.name,
        "target": target.key,
        "slow_path": slow,
        "samples": len(samples),
        "labelled": samples.y is not None,
        "random": config.data == Data(),
        "accuracy_float": measure.float_accuracy,
        "rows": rows,
    }


def noise_of_model(model: Path, target: Target, locked: Lookup, formats: str | None) -> dict[str, Any]:
    """What each tensor's format costs, on the first SAMPLES evaluation samples.

    `formats`: 'locked' or a name of `evaluate_model`'s rows; None: the locked ones. Raises MinunError where
    there are none of that name.
    """
    config = read_model(model)
    network = import_network(config)
    samples = evaluation(config, network).first(SAMPLES)
    space = space_in(config, network, tensor_ranges(network, calibration(config, network)))
    choices: dict[str, Assignment] = {rung.name: rung.formats for rung in (*space.low, *space.high)}
    choices["float32"] = space.float32.formats
    if locked.entry is not None:
        choices["locked"] = assignment_from_json(locked.entry.summary["assignment"])
    name = formats or "locked"
    if name not in choices:
        what = locked.reason if name == "locked" else f"no formats '{formats}' here"
        raise MinunError("evaluate.formats", f"{what}; --formats takes one of {', '.join(choices)}")
    legal = legalise(network, choices[name])
    return {
        "model": config.name,
        "formats": name,
        "samples": len(samples),
        "tensors": [row.to_json() for row in noise(legal, samples.x)],
    }


def search_model(
    model: Path, target: Target, strategies: Sequence[str], ram: int | None, tell: Tell | None = None
) -> tuple[ModelConfig, Graph, list[Outcome]]:
    """The outcome of each strategy on the calibration samples; the lock file is not touched.

    `ram`: bytes that the search may use, in place of model.yaml's. `tell` hears how far it is.
    """
    config = read_model(model)
    network = import_network(config)
    costs = Costs(network, target.core, config.memory)
    outcomes = []
    for strategy in strategies or (config.search.strategy,):
        search = replace(config.search, strategy=strategy, ram=config.search.ram if ram is None else ram)
        wanted = replace(config, search=search)
        outcomes.append(choose(wanted, network, target.ram_bytes, target.flash_bytes, costs, tell))
    return config, network, outcomes

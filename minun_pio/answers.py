# SPDX-License-Identifier: Apache-2.0
"""What a board must answer: the locked model's input and output codes over its evaluation samples."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.board.target import Target
from minun_pio.build import evaluation, import_network
from minun_pio.config import ModelConfig, read_model
from minun_pio.emit.lower import frames
from minun_pio.emit.program import Program, from_json
from minun_pio.errors import MinunError
from minun_pio.lock import Entry, find
from minun_pio.numerics.format import Format
from minun_pio.search.assignment_json import assignment_from_json
from minun_pio.search.measure import agreement
from minun_pio.simulate.legalise import legalise
from minun_pio.simulate.reference import reference
from minun_pio.simulate.run import encode_inputs, run_codes


@dataclass(frozen=True)
class Expected:
    """Sample by sample: the input codes' bytes to send, and the output codes' bytes that must come back.

    Accuracies are fractions; `labelled` False: agreement with float32 where there are no labels.
    """

    config: ModelConfig
    program: Program
    entry: Entry
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    accuracy_host: float
    accuracy_float32: float
    labelled: bool
    labels: NDArray[np.int64] | None
    float_answer: NDArray[Any]
    out_format: Format

    def accuracy_of(self, outputs: Sequence[bytes]) -> float:
        """The accuracy of a board's raw answers, which may be to the first samples only."""
        port = self.program.outputs[0]
        codes = np.stack([_codes(frame, port.offset_bytes, port.bytes, port.ctype) for frame in outputs])
        values = codes if self.out_format.family == "index" else self.out_format.decode(codes)
        count = len(outputs)
        labels = None if self.labels is None else self.labels[:count]
        return agreement(values.reshape(count, *port.shape), labels, self.float_answer[:count])


_DTYPES = {"int8_t": "<i1", "int16_t": "<i2", "int32_t": "<i4", "float": "<f4", "uint16_t": "<u2"}


def _codes(frame: bytes, offset: int, size: int, ctype: str) -> NDArray[Any]:
    return np.frombuffer(frame[offset : offset + size], dtype=_DTYPES[ctype])


def locked_entry(model: Path, target: Target) -> Entry:
    """The valid lock entry of a model for a target. Raises MinunError telling to build."""
    found = find(model, target.key)
    if found.entry is None:
        raise MinunError("lock.stale", f"{found.reason}; build the model for {target.name} first", model.name)
    return found.entry


def expected(model: Path, target: Target, samples: int | None = None) -> Expected:
    """The answers of the locked program over the evaluation samples (the first `samples` of them)."""
    entry = locked_entry(model, target)
    config = read_model(model)
    network = import_network(config)
    chosen = evaluation(config, network).first(samples)
    legal = legalise(network, assignment_from_json(entry.summary["assignment"]))
    codes = encode_inputs(network, legal.formats, chosen.x)
    done = run_codes(legal, codes)
    program = from_json(entry.program)
    in_ports = {port.name: port for port in program.inputs}
    out_ports = {f"{port.name}#{k}": port for k, port in enumerate(program.outputs)}
    out_codes = {f"{name}#{k}": done.codes[name] for k, name in enumerate(network.outputs)}
    name = network.outputs[0]
    answer = reference(network, chosen.x)[name]
    return Expected(
        config=config,
        program=program,
        entry=entry,
        inputs=_split(frames(in_ports, codes), program.input_bytes),
        outputs=_split(frames(out_ports, out_codes), program.output_bytes),
        accuracy_host=agreement(done.values(name), chosen.y, answer),
        accuracy_float32=agreement(answer, chosen.y, answer),
        labelled=chosen.y is not None,
        labels=chosen.y,
        float_answer=answer,
        out_format=legal.formats[name],
    )


def _split(encoded: str, size: int) -> tuple[bytes, ...]:
    data = base64.b64decode(encoded)
    return tuple(data[at : at + size] for at in range(0, len(data), size))

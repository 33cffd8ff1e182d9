# SPDX-License-Identifier: Apache-2.0
"""What a model.yaml says, as frozen dataclasses. Paths are absolute; sizes are bytes; None means `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAMILIES = ("posit", "fixed", "int8", "float32")
STRATEGIES = (
    "haunter",
    "haunter-paper",
    "shiftry",
    "accuracy-based",
    "size-based",
    "uniform-low",
    "uniform-high",
    "float32",
    "bracket",
)
PLANNERS = (
    "exact",
    "dancing-links",
    "first-fit",
    "by-size",
    "by-conflicts",
    "hill-climb",
    "ping-pong",
    "cp-sat",
)
POSIT_SOFT_LIMITS = (0.8, 0.9, 1.0, 1.1)
FIXED_SOFT_LIMITS = (1.0, 1.1)


@dataclass(frozen=True)
class Layer:
    """One entry of `source.layers`: an operator or a classic cell, its attributes, and where it stands."""

    kind: str
    attrs: Mapping[str, Any]
    line: int


@dataclass(frozen=True)
class Source:
    """Where the network comes from. `kind` is 'onnx', 'tflite' or 'layers'."""

    kind: str
    path: Path | None = None  # the .onnx or .tflite file
    layers: tuple[Layer, ...] = ()
    weights: Path | None = None  # the .npz of a layer list
    input_shape: tuple[int, ...] | None = None  # of a layer list, or to make an ONNX input static


@dataclass(frozen=True)
class DataFile:
    """Samples in an NPZ (arrays `x` and `y`), NPY (x only) or CSV file (label in the last column)."""

    path: Path
    x: str = "x"
    y: str = "y"
    line: int = 0


@dataclass(frozen=True)
class Data:
    """`calibration` drives the search, `evaluation` is what is reported. Either may be absent."""

    calibration: DataFile | None = None
    evaluation: DataFile | None = None


@dataclass(frozen=True)
class Formats:
    """The two widths the search chooses between. `low` and `high` are a width in bits, a full format name
    (`posit<8,2>`), or None for the family's default (8 and 16). `keep_high`: names of tensors, or patterns of
    names, that the search must leave high."""

    family: str = "posit"
    low: int | str | None = None
    high: int | str | None = None
    keep_high: tuple[str, ...] = ()


@dataclass(frozen=True)
class Search:
    strategy: str = "haunter"
    soft_limits: tuple[float, ...] | None = None  # None: what the family's paper experiment used
    tolerated_drop: float = 2.0  # points of accuracy below float32 that a build accepts
    samples: int | None = None  # of the calibration data; None: all of it
    ram: int | None = None  # bytes the search may use; None: the RAM budget


@dataclass(frozen=True)
class Budgets:
    """Bytes for the model; None = what the board has less `reserve_*` for the rest of the firmware."""

    ram: int | None = None
    flash: int | None = None
    reserve_ram: int | None = None
    reserve_flash: int | None = None


@dataclass(frozen=True)
class Memory:
    """Where the network's input lives, and which ways of sharing bytes the planner may use."""

    input: str = "caller"  # 'caller' or 'arena'
    in_place: bool = True
    concat: bool = True
    overlap: bool = True
    reorder: bool = True
    planner: str = "exact"
    timeout_s: float = 10.0


@dataclass(frozen=True)
class ModelConfig:
    """One model.yaml, read and checked for everything that can be known without opening the arrays."""

    path: Path
    name: str
    source: Source
    data: Data = Data()
    formats: Formats = Formats()
    search: Search = Search()
    budgets: Budgets = Budgets()
    memory: Memory = Memory()
    outputs: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)  # 'data.calibration' -> line

    def where(self, key: str = "") -> str:
        """`model.yaml:LINE` of a dotted key, or of the nearest key above it that is written there."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        line = self.lines.get(key, 1)
        return f"{self.path.name}:{line}"

    def inputs(self) -> dict[str, Path]:
        """Every file that the build reads beside model.yaml, by its role."""
        roles: dict[str, Path | None] = {
            "source": self.source.path,
            "weights": self.source.weights,
            "calibration": self.data.calibration.path if self.data.calibration else None,
            "evaluation": self.data.evaluation.path if self.data.evaluation else None,
        }
        return {role: path for role, path in roles.items() if path is not None}


def default_reserve_ram(ram_bytes: int) -> int:
    """Bytes of SRAM left to the rest of the firmware: 512 B for stack and serial, and a sixteenth."""
    return min(ram_bytes, 512 + ram_bytes // 16)


def default_reserve_flash(flash_bytes: int) -> int:
    """Bytes of flash left to the rest of the firmware by default: 4 KB and an eighth."""
    return min(flash_bytes, 4096 + flash_bytes // 8)


def ram_budget(config: ModelConfig, board_ram_bytes: int | None) -> int | None:
    """Bytes of SRAM for the model: as written but not more than the board has, or the board's less the
    reserve; None = unlimited."""
    if board_ram_bytes is None:
        return config.budgets.ram
    if config.budgets.ram is not None:
        return min(config.budgets.ram, board_ram_bytes)
    reserve = config.budgets.reserve_ram
    return max(0, board_ram_bytes - (default_reserve_ram(board_ram_bytes) if reserve is None else reserve))


def flash_budget(config: ModelConfig, board_flash_bytes: int | None) -> int | None:
    """Bytes of flash for the model: as written but not more than the board has, or the board's less the
    reserve; None = unlimited."""
    if board_flash_bytes is None:
        return config.budgets.flash
    if config.budgets.flash is not None:
        return min(config.budgets.flash, board_flash_bytes)
    reserve = config.budgets.reserve_flash
    return max(
        0, board_flash_bytes - (default_reserve_flash(board_flash_bytes) if reserve is None else reserve)
    )

# SPDX-License-Identifier: Apache-2.0
"""model.yaml to frozen dataclasses. Needs PyYAML only, never numpy; `config.dataset` opens the arrays."""

from __future__ import annotations

from minun_pio.config.model import (
    Budgets,
    Data,
    DataFile,
    Formats,
    Layer,
    Memory,
    ModelConfig,
    Search,
    Source,
    flash_budget,
    ram_budget,
)
from minun_pio.config.read import read_model

__all__ = [
    "Budgets",
    "Data",
    "DataFile",
    "Formats",
    "Layer",
    "Memory",
    "ModelConfig",
    "Search",
    "Source",
    "flash_budget",
    "ram_budget",
    "read_model",
]

# SPDX-License-Identifier: Apache-2.0
"""ONNX files (operator sets 7 to current) to graphs. Needs the extra `onnx`, only when a file is read."""

from __future__ import annotations

from minun_pio.importers.onnx.convert import convert, load_onnx
from minun_pio.importers.onnx.model import parse_onnx, read_onnx

__all__ = ["convert", "load_onnx", "parse_onnx", "read_onnx"]

# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite files to graphs. Needs the extra `tflite`, only when a file is read."""

from __future__ import annotations

from minun_pio.importers.tflite.convert import convert, load_tflite
from minun_pio.importers.tflite.model import parse_tflite, read_tflite

__all__ = ["convert", "load_tflite", "parse_tflite", "read_tflite"]

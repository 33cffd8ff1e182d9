# SPDX-License-Identifier: Apache-2.0
"""An assignment as JSON and back, so that the lock file's formats can be simulated again without a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minun_pio.errors import MinunError
from minun_pio.numerics.affine import Affine
from minun_pio.numerics.format import Format
from minun_pio.numerics.parse import parse_format
from minun_pio.search.space import Assignment


def assignment_json(assignment: Assignment) -> dict[str, Any]:
    """`formats`: each distinct one once; `tensors`: the index into it by tensor name."""
    distinct = list(dict.fromkeys(assignment.values()))
    index = {fmt: k for k, fmt in enumerate(distinct)}
    return {
        "formats": [_format_json(fmt) for fmt in distinct],
        "tensors": {name: index[fmt] for name, fmt in assignment.items()},
    }


def assignment_from_json(data: Mapping[str, Any]) -> dict[str, Format]:
    """The assignment. Raises MinunError when the JSON is not of `assignment_json`."""
    try:
        formats = [_format(item) for item in data["formats"]]
        return {name: formats[k] for name, k in data["tensors"].items()}
    except (KeyError, TypeError, IndexError, AttributeError):
        raise MinunError("lock.damaged", "the locked formats cannot be read; run the search again") from None


def _format_json(fmt: Format) -> Any:
    if isinstance(fmt, Affine):
        return {
            "width": fmt.width,
            "scales": list(fmt.scales),
            "zero_point": fmt.zero_point,
            "axis": fmt.axis,
            "narrow": fmt.narrow,
        }
    return fmt.name


def _format(item: Any) -> Format:
    if isinstance(item, str):
        return parse_format(item)
    return Affine(item["width"], tuple(item["scales"]), item["zero_point"], item["axis"], item["narrow"])

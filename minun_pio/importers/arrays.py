# SPDX-License-Identifier: Apache-2.0
"""The NPZ with a layer list's weights, and how a layer names what it wants from it.

A value is the name of an array, a number, a list of numbers, or a mapping of `array` with `transpose`,
`scale`,
`reshape`; a sparse matrix as SeeDot writes it is a mapping of `values`, `indices` (column by column, rows
counted from 1, 0 ends a column) and `shape`.
"""

from __future__ import annotations

import difflib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.errors import MinunError

MAX_BYTES = 512 << 20
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Arrays:
    """The arrays of one NPZ file, by name."""

    file: str
    arrays: Mapping[str, NDArray[Any]]

    def take(self, wanted: Any, key: str, where: str) -> Floats:
        """The array that the value `wanted` of option `key` describes."""
        if isinstance(wanted, bool) or wanted is None:
            raise MinunError("layers.value", f"'{key}' is {wanted}, expected an array's name", where)
        if isinstance(wanted, (int, float)):
            return np.asarray(float(wanted))
        if isinstance(wanted, str):
            return self._named(wanted, key, where)
        if isinstance(wanted, (list, tuple)):
            try:
                return np.asarray(wanted, dtype=np.float64)
            except (TypeError, ValueError):
                raise MinunError("layers.value", f"'{key}' is not a list of numbers", where) from None
        if isinstance(wanted, Mapping):
            return self._described(wanted, key, where)
        raise MinunError("layers.value", f"'{key}' is {wanted!r}, expected an array's name", where)

    def _named(self, name: str, key: str, where: str) -> Floats:
        if not self.file:
            raise MinunError(
                "layers.missing-array",
                f"'{key}' names array '{name}', but there is no 'source.weights'; add 'weights: weights.npz'",
                where,
            )
        if name not in self.arrays:
            near = difflib.get_close_matches(name, list(self.arrays), n=1)
            hint = f"did you mean '{near[0]}'?" if near else "it has " + ", ".join(sorted(self.arrays)[:12])
            raise MinunError(
                "layers.missing-array", f"'{key}': no array '{name}' in {self.file}; {hint}", where
            )
        values = self.arrays[name]
        if values.dtype.kind not in "fiu":
            raise MinunError(
                "layers.value", f"'{key}': '{name}' holds {values.dtype}, numbers expected", where
            )
        result = values.astype(np.float64)
        if not result.size or not np.all(np.isfinite(result)):
            raise MinunError(
                "layers.value", f"'{key}': '{name}' is empty or has NaN or infinity in it", where
            )
        return result

    def _described(self, wanted: Mapping[str, Any], key: str, where: str) -> Floats:
        known = {"array", "transpose", "scale", "reshape", "values", "indices", "shape"}
        unknown = sorted(set(wanted) - known)
        if unknown:
            raise MinunError(
                "layers.unknown-key", f"'{key}' has no '{unknown[0]}'; it takes {sorted(known)}", where
            )
        if "array" in wanted:
            result = self.take(wanted["array"], key, where)
        elif {"values", "indices", "shape"} <= set(wanted):
            result = self._sparse(wanted, key, where)
        else:
            raise MinunError("layers.value", f"'{key}' needs 'array', or 'values', 'indices', 'shape'", where)
        try:
            if wanted.get("reshape"):
                result = result.reshape([int(n) for n in wanted["reshape"]])
            if wanted.get("transpose"):
                result = result.T
            return result * float(wanted.get("scale", 1.0))
        except (TypeError, ValueError):
            raise MinunError(
                "layers.value", f"'{key}': {result.shape} does not fit its reshape or scale", where
            ) from None

    def _sparse(self, wanted: Mapping[str, Any], key: str, where: str) -> Floats:
        values = self.take(wanted["values"], key, where).reshape(-1)
        indices = self.take(wanted["indices"], key, where).reshape(-1).astype(np.int64)
        try:
            rows, columns = (int(n) for n in wanted["shape"])
        except (TypeError, ValueError):
            raise MinunError("layers.value", f"'{key}': 'shape' is not [rows, columns]", where) from None
        if not 0 < rows * columns <= MAX_BYTES // 8 or rows < 1:
            raise MinunError("layers.value", f"'{key}': a matrix of {rows} x {columns}", where)
        result = np.zeros((rows, columns))
        column = taken = 0
        for index in indices:
            if index == 0:
                column += 1
            elif column < columns and 1 <= index <= rows and taken < values.size:
                result[index - 1, column] = values[taken]
                taken += 1
            else:
                raise MinunError("layers.value", f"'{key}': its indices leave {rows} x {columns}", where)
        if column != columns or taken != values.size:
            raise MinunError(
                "layers.value",
                f"'{key}': {column} columns and {taken} values used, expected {columns} and {values.size}",
                where,
            )
        return result


def read_arrays(path: Path | None) -> Arrays:
    """The arrays of an NPZ file; none at all for None. Pickles are refused."""
    if path is None:
        return Arrays("", {})
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MAX_BYTES:
            raise MinunError(
                "layers.too-large", f"{size:,} bytes of arrays; at most {MAX_BYTES:,}", path.name
            )
        with np.load(path, allow_pickle=False) as archive:
            return Arrays(path.name, {name: archive[name] for name in archive.files})
    except (
        OSError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        KeyError,
        NotImplementedError,
        SyntaxError,
    ) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise MinunError(
            "layers.weights", f"not a readable NPZ of plain arrays: {reason}", path.name
        ) from None

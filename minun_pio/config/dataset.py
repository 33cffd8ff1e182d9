# SPDX-License-Identifier: Apache-2.0
"""Opens the samples that model.yaml names and checks them. Needs numpy; the rest of `config` does not."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minun_pio.config.fields import nearest
from minun_pio.config.model import DataFile, ModelConfig
from minun_pio.errors import MinunError

Array = NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """`x`: (samples, …) of one input, or a mapping of inputs. `y`: (samples,) integer labels, or None."""

    x: Array | Mapping[str, Array]
    y: NDArray[np.int64] | None

    def __len__(self) -> int:
        first = next(iter(self.x.values())) if isinstance(self.x, Mapping) else self.x
        return int(first.shape[0])

    def first(self, count: int | None) -> Samples:
        """The first `count` samples; all of them for None."""
        if count is None or count >= len(self):
            return self
        if isinstance(self.x, Mapping):
            x: Array | Mapping[str, Array] = {name: values[:count] for name, values in self.x.items()}
        else:
            x = self.x[:count]
        return Samples(x, None if self.y is None else self.y[:count])


def load_samples(
    config: ModelConfig,
    role: str,
    inputs: Mapping[str, tuple[int, ...]],
    classes: int | None,
    binary: bool = False,
) -> Samples:
    """The samples of `role` ('calibration' or 'evaluation').

    `inputs` are the network's inputs with their shapes; `classes` the number of classes that its output tells
    apart (None: not a classifier, labels are not checked). `binary`: one output tells two classes apart,
    where every label is 0 or 1; other numbers are no labels then. Raises MinunError with model.yaml's line.
    """
    found = config.data.calibration if role == "calibration" else config.data.evaluation
    where = config.where(f"data.{role}")
    if found is None:
        raise MinunError(
            "data.missing",
            f"there is no 'data.{role}', which this needs; add '{role}: samples.npz' to 'data'",
            where,
        )
    arrays = _arrays(found, where)
    x = _inputs(found, arrays, inputs, where)
    count = len(Samples(x, None))
    if count == 0:
        raise MinunError("data.empty", f"'{found.path.name}' has no sample", where)
    if binary and _two_classes(arrays.get(found.y)):
        classes = 2
    return Samples(x, _labels(found, arrays, count, classes, where))


def _two_classes(labels: Array | None) -> bool:
    return labels is not None and labels.dtype.kind in "biuf" and bool(np.isin(labels, (0, 1)).all())


def _arrays(found: DataFile, where: str) -> dict[str, Array]:
    """The arrays of the file, by name. Pickles are never read."""
    name, suffix = found.path.name, found.path.suffix.lower()
    try:
        if suffix == ".csv":
            return _csv(found)
        with open(found.path, "rb") as stream:
            start = stream.read(6)
            if not start.startswith((b"PK", b"\x93NUMPY")):
                raise ValueError("it is neither an archive of arrays nor an array of numpy")
            stream.seek(0)
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {found.x: loaded}
            with loaded as archive:
                return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, KeyError, SyntaxError, zipfile.BadZipFile, MemoryError) as error:
        reason = str(error).splitlines()[0].partition(";")[0][:120] if str(error) else type(error).__name__
        raise MinunError(
            "data.unreadable", f"'{name}' cannot be read as a {suffix[1:].upper()} file: {reason}", where
        ) from None


def _csv(found: DataFile) -> dict[str, Array]:
    """Rows of numbers; a first row of names is allowed. The last column is the label."""
    with open(found.path, encoding="utf-8-sig") as stream:
        first = stream.readline()
    try:
        [float(cell) for cell in first.split(",")]
        header = 0
    except ValueError:
        header = 1
    if first.count(";") > first.count(","):
        raise ValueError("its columns are separated by semicolons, expected commas and decimal points")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty file is reported as such
        table = np.loadtxt(
            found.path, delimiter=",", skiprows=header, ndmin=2, dtype=np.float64, encoding="utf-8-sig"
        )
    if table.size == 0:
        return {found.x: table.reshape(0, 1), found.y: np.zeros(0)}
    return {found.x: table[:, :-1], found.y: table[:, -1]}


def _inputs(
    found: DataFile, arrays: Mapping[str, Array], inputs: Mapping[str, tuple[int, ...]], where: str
) -> Array | dict[str, Array]:
    if len(inputs) == 1:
        ((input_name, shape),) = inputs.items()
        key = input_name if found.x == "x" and "x" not in arrays else found.x
        return _checked(found, arrays, key, shape, where)
    checked = {name: _checked(found, arrays, name, shape, where) for name, shape in inputs.items()}
    counts = {name: values.shape[0] for name, values in checked.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise MinunError(
            "data.samples",
            f"the arrays of '{found.path.name}' differ in samples: {told}; give as many",
            where,
        )
    return checked


def _checked(
    found: DataFile, arrays: Mapping[str, Array], key: str, shape: tuple[int, ...], where: str
) -> Array:
    name = found.path.name
    if key not in arrays:
        raise _missing(found, arrays, key, where)
    values = arrays[key]
    if values.dtype.kind not in "biuf":
        raise MinunError(
            "data.wrong-type", f"array '{key}' of '{name}' has {values.dtype}, expected numbers", where
        )
    per_sample = int(np.prod(shape))
    hint = ""
    if found.path.suffix.lower() == ".csv" and values.ndim == 2 and values.shape[1] == per_sample - 1:
        hint = "; the last column is taken for the label"
    if values.ndim < 1 or (values.shape[0] and int(np.prod(values.shape[1:])) != per_sample):
        raise MinunError(
            "data.shape",
            f"array '{key}' of '{name}' has samples of shape {values.shape[1:]}, "
            f"the network takes {shape}{hint}",
            where,
        )
    rows = values.reshape(values.shape[0], per_sample)
    bad = np.nonzero(~np.isfinite(rows).all(axis=1))[0]
    if len(bad):
        raise MinunError(
            "data.not-finite",
            f"array '{key}' of '{name}' has NaN or infinite values, first in sample {int(bad[0])}; remove it",
            where,
        )
    return values


def _missing(found: DataFile, arrays: Mapping[str, Array], key: str, where: str) -> MinunError:
    near = nearest(key, arrays)
    hint = f"did you mean '{near}'?" if near else "it has: " + (", ".join(sorted(arrays)) or "nothing")
    return MinunError("data.missing-array", f"'{found.path.name}' has no array '{key}'; {hint}", where)


def _one_hot(labels: Array, classes: int | None) -> Array:
    """Classes of rows with a single 1, one column a class; anything else as it is."""
    if labels.ndim != 2 or labels.shape[1] != classes or labels.dtype.kind not in "biuf":
        return labels
    ones = labels == 1
    single = (ones.sum(axis=1) == 1).all() and (ones | (labels == 0)).all()
    return np.argmax(ones, axis=1) if single else labels


def _labels(
    found: DataFile, arrays: Mapping[str, Array], count: int, classes: int | None, where: str
) -> NDArray[np.int64] | None:
    if found.y not in arrays:
        if found.y != "y":
            raise _missing(found, arrays, found.y, where)
        return None
    name, labels = found.path.name, arrays[found.y]
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else _one_hot(labels, classes)
    if labels.ndim != 1 or classes is None:
        return None  # not class labels: the network's own float answers are the measure
    if labels.shape[0] != count:
        raise MinunError("data.shape", f"'{name}' has {count} samples and {labels.shape[0]} labels", where)
    whole = np.asarray(labels, np.float64).astype(np.int64) if labels.dtype.kind in "biuf" else None
    if whole is None or not np.array_equal(whole, labels):
        raise MinunError(
            "data.wrong-type", f"array '{found.y}' of '{name}' has labels that are not integers", where
        )
    bad = np.nonzero((whole < 0) | (whole >= classes))[0]
    if len(bad):
        raise MinunError(
            "data.label-out-of-range",
            f"label {int(whole[bad[0]])} of sample {int(bad[0])} in '{name}' is outside 0 to {classes - 1}",
            where,
        )
    return whole

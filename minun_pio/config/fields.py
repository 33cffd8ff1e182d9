# SPDX-License-Identifier: Apache-2.0
"""Typed readers of located YAML values; every refusal says what was found and what was expected."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from minun_pio.config.located import Located
from minun_pio.errors import MinunError

_UNITS = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}


class Reader:
    """Reads the values of one file: `name` in errors, its paths relative to `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.lines: dict[str, int] = {}

    def error(self, code: str, message: str, line: int) -> MinunError:
        return MinunError(code, message, f"{self.name}:{line}")

    def wrong_type(self, key: str, value: Located, expected: str) -> MinunError:
        return self.error(
            "config.wrong-type", f"'{key}' is {describe(value)}, expected {expected}", value.line
        )

    def mapping(self, key: str, value: Located, known: Iterable[str]) -> Mapping[str, Located]:
        """A mapping with keys of `known` only."""
        if not isinstance(value.value, dict):
            raise self.wrong_type(key, value, "a mapping of " + ", ".join(known))
        entries: Mapping[str, Located] = value.value
        names = list(known)
        for entry, found in entries.items():
            if entry not in names:
                raise self.unknown_key(key, entry, names, found.line)
            self.lines[f"{key}.{entry}" if key != self.name else entry] = found.line
        return entries

    def unknown_key(self, parent: str, key: str, known: list[str], line: int) -> MinunError:
        near = nearest(key, known)
        place = "" if parent == self.name else f" in '{parent}'"
        hint = f"did you mean '{near}'?" if near else "known keys: " + ", ".join(known)
        return self.error("config.unknown-key", f"unknown key '{key}'{place}; {hint}", line)

    def text(self, key: str, value: Located) -> str:
        if not isinstance(value.value, str) or not value.value:
            raise self.wrong_type(key, value, "a word")
        return value.value

    def choice(self, key: str, value: Located, allowed: Iterable[str]) -> str:
        options = list(allowed)
        found = self.text(key, value) if isinstance(value.value, str) else str(value.value)
        if found not in options:
            near = nearest(found, options)
            hint = f"; did you mean '{near}'?" if near else ""
            raise self.error(
                "config.wrong-value",
                f"'{key}' is '{found}', expected one of {', '.join(options)}{hint}",
                value.line,
            )
        return found

    def flag(self, key: str, value: Located) -> bool:
        if not isinstance(value.value, bool):
            raise self.wrong_type(key, value, "true or false")
        return value.value

    def number(self, key: str, value: Located, low: float, high: float) -> float:
        if isinstance(value.value, bool) or not isinstance(value.value, (int, float)):
            raise self.wrong_type(key, value, "a number")
        if not low <= value.value <= high:
            raise self.error(
                "config.out-of-range", f"'{key}' is {value.value}, expected {low:g} to {high:g}", value.line
            )
        return float(value.value)

    def integer(self, key: str, value: Located, low: int, high: int) -> int:
        if isinstance(value.value, bool) or not isinstance(value.value, int):
            raise self.wrong_type(key, value, "a whole number")
        if not low <= value.value <= high:
            raise self.error(
                "config.out-of-range", f"'{key}' is {value.value}, expected {low} to {high}", value.line
            )
        return value.value

    def byte_size(self, key: str, value: Located) -> int | None:
        """Bytes as a number or with a unit (`1.5 KB`, 1 KB = 1,024 B); None for `auto`."""
        found = value.value
        if found is None or found == "auto":
            return None
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
        match = (
            re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", found) if isinstance(found, str) else None
        )
        if match is None or match[2].lower() not in _UNITS:
            raise self.wrong_type(key, value, "bytes ('1536', '1.5 KB', '2 MB') or 'auto'")
        return int(float(match[1]) * _UNITS[match[2].lower()])

    def sequence(self, key: str, value: Located) -> list[Located]:
        if not isinstance(value.value, list):
            raise self.wrong_type(key, value, "a list")
        return value.value

    def numbers(self, key: str, value: Located, low: float, high: float) -> tuple[float, ...]:
        """One number or a list of at least one."""
        items = value.value if isinstance(value.value, list) else [value]
        if not items:
            raise self.wrong_type(key, value, "at least one number")
        return tuple(self.number(key, item, low, high) for item in items)

    def shape(self, key: str, value: Located) -> tuple[int, ...]:
        return tuple(self.integer(key, item, 1, 1 << 24) for item in self.sequence(key, value))

    def file(self, key: str, value: Located, suffixes: tuple[str, ...]) -> Path:
        """An existing file with one of `suffixes`, relative to model.yaml's folder."""
        given = self.text(key, value)
        path = Path(os.path.normpath(self.folder.absolute() / given))
        if path.suffix.lower() not in suffixes:
            raise self.error(
                "config.wrong-value",
                f"'{key}' is '{given}', expected a {' or '.join(suffixes)} file",
                value.line,
            )
        if not path.is_file():
            beside = [entry.name for entry in path.parent.glob("*") if entry.suffix.lower() in suffixes]
            near = nearest(path.name, beside)
            hint = f"; did you mean '{near}'?" if near else "; paths are relative to this file's folder"
            raise self.error("config.missing-file", f"'{key}': no file '{given}'{hint}", value.line)
        return path


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or None when nothing is near."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def describe(value: Located) -> str:
    """A value as an error shows it: short, with its kind."""
    found: Any = value.value
    if found is None:
        return "empty"
    if isinstance(found, dict):
        return "a mapping"
    if isinstance(found, list):
        return f"a list of {len(found)}"
    if isinstance(found, bool):
        return "true" if found else "false"
    shown = str(found)
    return f"'{shown if len(shown) <= 40 else shown[:37] + '...'}'"

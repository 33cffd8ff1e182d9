# SPDX-License-Identifier: Apache-2.0
"""YAML with line numbers: every value knows where it was written. Needs PyYAML only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minun_pio.errors import MinunError, missing_extra

MAX_BYTES = 4 << 20
MAX_NODES = 200_000
MAX_DEPTH = 32


@dataclass(frozen=True)
class Located:
    """A YAML value and its line (from 1). Mappings are dict[str, Located], sequences list[Located]."""

    value: Any
    line: int

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


def parse(text: str, name: str) -> Located:
    """The one document in `text`. `name` stands before the line in errors. Raises MinunError."""
    try:
        import yaml
    except ImportError:
        raise missing_extra("pyyaml", f"reading {name}") from None
    if len(text) > MAX_BYTES:
        raise MinunError(
            "config.too-large", f"the file has {len(text)} characters, at most {MAX_BYTES}", name
        )
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise MinunError(
                "config.empty", "the file is empty; it needs at least 'name' and 'source'", f"{name}:1"
            )
        return _Converter(loader, name).convert(root, 0)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise MinunError(
            "config.yaml",
            f"not valid YAML: character #x{error.character:04x} is not allowed",
            f"{name}:{line}",
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "cannot be read"
        raise MinunError("config.yaml", f"not valid YAML: {problem}", f"{name}:{line}") from None
    except RecursionError:
        raise MinunError("config.yaml", f"nested deeper than {MAX_DEPTH} levels", name) from None
    finally:
        if loader is not None:
            loader.dispose()


class _Converter:
    def __init__(self, loader: Any, name: str) -> None:
        self.loader = loader
        self.name = name
        self.count = 0

    def convert(self, node: Any, depth: int) -> Located:
        import yaml

        line = node.start_mark.line + 1
        where = f"{self.name}:{line}"
        self.count += 1
        if self.count > MAX_NODES:
            raise MinunError(
                "config.too-large", f"more than {MAX_NODES} values (aliases count each time)", where
            )
        if depth > MAX_DEPTH:
            raise MinunError("config.yaml", f"nested deeper than {MAX_DEPTH} levels", where)
        if isinstance(node, yaml.SequenceNode):
            return Located([self.convert(item, depth + 1) for item in node.value], line)
        if isinstance(node, yaml.MappingNode):
            entries: dict[str, Located] = {}
            for key_node, value_node in node.value:
                key_line = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise MinunError("config.yaml", "a key must be a word", f"{self.name}:{key_line}")
                key = str(key_node.value)
                if key in entries:
                    raise MinunError(
                        "config.duplicate-key",
                        f"key '{key}' stands twice, first in line {entries[key].line}; remove one",
                        f"{self.name}:{key_line}",
                    )
                entries[key] = self._at_key(self.convert(value_node, depth + 1), key_line)
            return Located(entries, line)
        try:
            return Located(self.loader.construct_object(node, deep=True), line)
        except (ValueError, OverflowError) as error:
            raise MinunError("config.yaml", f"'{node.value}' cannot be read: {error}", where) from None

    @staticmethod
    def _at_key(value: Located, key_line: int) -> Located:
        """A value is found where its key is written (a block value starts one line below)."""
        return Located(value.value, key_line)

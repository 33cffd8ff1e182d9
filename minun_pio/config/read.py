# SPDX-License-Identifier: Apache-2.0
"""model.yaml to `ModelConfig`. Everything wrong is one line, `model.yaml:LINE: …`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from minun_pio.config.fields import Reader
from minun_pio.config.located import Located, parse
from minun_pio.config.model import (
    FAMILIES,
    PLANNERS,
    STRATEGIES,
    Budgets,
    Data,
    DataFile,
    Formats,
    Layer,
    Memory,
    ModelConfig,
    Search,
    Source,
)
from minun_pio.config.names import why_not
from minun_pio.errors import MinunError

TOP_KEYS = ("name", "source", "data", "formats", "search", "budgets", "memory", "outputs")
_DATA_SUFFIXES = (".npz", ".npy", ".csv")
_NETWORKS = ("onnx", "tflite")


def read_model(path: Path | str) -> ModelConfig:
    """Read and check a model.yaml. Files it names must exist; they are not opened. Raises MinunError."""
    path = Path(path).absolute()
    kind = path.suffix.lower().removeprefix(".")
    if kind in _NETWORKS:
        lines = f"'name: {path.stem}' and 'source: {{{kind}: {path.name}}}'"
        raise MinunError(
            "config.network", f"this is a network; write a model.yaml beside it with {lines}", path.name
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise MinunError(
            "config.missing-file",
            f"no file '{path.name}' in {path.parent}; write one or name another",
            path.name,
        ) from None
    except UnicodeDecodeError:
        raise MinunError("config.yaml", "not a text file in UTF-8", path.name) from None
    except OSError as error:
        raise MinunError("config.missing-file", f"cannot be read: {error.strerror}", path.name) from None
    return _read(parse(text, path.name), path)


def _read(root: Located, path: Path) -> ModelConfig:
    reader = Reader(path.name, path.parent)
    top = reader.mapping(path.name, root, TOP_KEYS)
    for needed in ("name", "source"):
        if needed not in top:
            raise reader.error("config.missing-key", f"the key '{needed}' is missing", root.line)
    return ModelConfig(
        path=path,
        name=_name(reader, top["name"]),
        source=_source(reader, top["source"]),
        data=_data(reader, top["data"]) if "data" in top else Data(),
        formats=_formats(reader, top["formats"]) if "formats" in top else Formats(),
        search=_search(reader, top["search"]) if "search" in top else Search(),
        budgets=_budgets(reader, top["budgets"]) if "budgets" in top else Budgets(),
        memory=_memory(reader, top["memory"]) if "memory" in top else Memory(),
        outputs=_outputs(reader, top["outputs"]) if "outputs" in top else (),
        lines=reader.lines,
    )


def _name(reader: Reader, value: Located) -> str:
    name = reader.text("name", value)
    reason = why_not(name)
    if reason:
        shown = name if len(name) <= 60 else f"{name[:57]}..."
        raise reader.error("config.wrong-value", f"'name' is '{shown}', {reason}", value.line)
    return name


def _source(reader: Reader, value: Located) -> Source:
    entries = reader.mapping("source", value, ("onnx", "tflite", "layers", "weights", "input"))
    kinds = [kind for kind in ("onnx", "tflite", "layers") if kind in entries]
    if len(kinds) != 1:
        found = " and ".join(f"'{kind}'" for kind in kinds) or "none"
        raise reader.error(
            "config.missing-key",
            f"'source' needs exactly one of 'onnx', 'tflite', 'layers'; found {found}",
            value.line,
        )
    kind = kinds[0]
    shape = reader.shape("source.input", entries["input"]) if "input" in entries else None
    if kind != "layers":
        if "weights" in entries:
            raise reader.error(
                "config.wrong-value",
                f"'source.weights' belongs to a layer list; a {kind} file carries its own",
                entries["weights"].line,
            )
        return Source(
            kind, path=reader.file(f"source.{kind}", entries[kind], (f".{kind}",)), input_shape=shape
        )
    layers = reader.sequence("source.layers", entries["layers"])
    if not layers:
        raise reader.error("config.empty", "'source.layers' has no layer", entries["layers"].line)
    weights = reader.file("source.weights", entries["weights"], (".npz",)) if "weights" in entries else None
    return Source(
        kind, layers=tuple(_layer(reader, item) for item in layers), weights=weights, input_shape=shape
    )


def _layer(reader: Reader, value: Located) -> Layer:
    """`- relu`, `- dense: {weights: W}` or `- op: dense` with its attributes beside it."""
    found: Any = value.value
    if isinstance(found, str) and found:
        return Layer(found, {}, value.line)
    if isinstance(found, dict) and "op" in found:
        attrs = {key: item.plain() for key, item in found.items() if key != "op"}
        return Layer(reader.text("op", found["op"]), attrs, value.line)
    if isinstance(found, dict) and len(found) == 1:
        ((kind, attrs_value),) = found.items()
        if attrs_value.value is None:
            return Layer(kind, {}, value.line)
        if isinstance(attrs_value.value, dict):
            return Layer(kind, attrs_value.plain(), value.line)
    raise reader.wrong_type(
        "source.layers",
        value,
        "a layer: '- relu', '- dense: {weights: W}', or '- op: dense' with its attributes",
    )


def _data(reader: Reader, value: Located) -> Data:
    entries = reader.mapping("data", value, ("calibration", "evaluation"))
    files = {key: _data_file(reader, f"data.{key}", item) for key, item in entries.items()}
    return Data(files.get("calibration"), files.get("evaluation"))


def _data_file(reader: Reader, key: str, value: Located) -> DataFile:
    if isinstance(value.value, str):
        return DataFile(reader.file(key, value, _DATA_SUFFIXES), line=value.line)
    if not isinstance(value.value, dict):
        raise reader.wrong_type(key, value, "a file, or a mapping of file, x, y")
    entries = reader.mapping(key, value, ("file", "x", "y"))
    if "file" not in entries:
        raise reader.error("config.missing-key", f"'{key}' needs the key 'file'", value.line)
    path = reader.file(f"{key}.file", entries["file"], _DATA_SUFFIXES)
    x = reader.text(f"{key}.x", entries["x"]) if "x" in entries else "x"
    y = reader.text(f"{key}.y", entries["y"]) if "y" in entries else "y"
    return DataFile(path, x, y, value.line)


def _formats(reader: Reader, value: Located) -> Formats:
    if value.value == "auto":
        return Formats()
    entries = reader.mapping("formats", value, ("family", "low", "high", "keep_high"))
    family = (
        reader.choice("formats.family", entries["family"], (*FAMILIES, "auto"))
        if "family" in entries
        else "auto"
    )
    family = "posit" if family == "auto" else family
    low = _width(reader, "formats.low", entries["low"], family) if "low" in entries else None
    high = _width(reader, "formats.high", entries["high"], family) if "high" in entries else None
    low_bits, high_bits = _bits(low, 8), _bits(high, 16)
    if low_bits > high_bits and family in ("posit", "fixed"):
        line = (entries.get("low") or entries["high"]).line
        raise reader.error(
            "config.wrong-value",
            f"'formats.low' ({low_bits} bits) is wider than 'formats.high' ({high_bits})",
            line,
        )
    keep_high: tuple[str, ...] = ()
    if "keep_high" in entries:
        if family not in ("posit", "fixed"):
            raise reader.error(
                "config.wrong-value",
                f"'formats.keep_high' needs two widths to choose from, family '{family}' has one; remove it",
                entries["keep_high"].line,
            )
        names = reader.sequence("formats.keep_high", entries["keep_high"])
        keep_high = tuple(reader.text("formats.keep_high", name) for name in names)
    return Formats(family, low, high, keep_high)


_WIDTHS = {"posit": (8, 9, 10, 12, 16, 32), "fixed": (8, 16), "int8": (8,), "float32": (32,)}
_NAME = re.compile(r"(posit)<(8|9|10|12|16|32),([0-2])>")


def _width(reader: Reader, key: str, value: Located, family: str) -> int | str | None:
    found: Any = value.value
    if found is None or found == "auto":
        return None
    if isinstance(found, str) and found.isdecimal() and len(found) <= 3:
        found = int(found)  # '8' in quotes
    if isinstance(found, int) and not isinstance(found, bool) and found in _WIDTHS[family]:
        return found
    if isinstance(found, str) and family == "posit" and _NAME.fullmatch(found.replace(" ", "")):
        return found.replace(" ", "")
    widths = ", ".join(str(width) for width in _WIDTHS[family])
    example = ", a format like 'posit<8,2>'" if family == "posit" else ""
    raise reader.wrong_type(key, value, f"a width of family {family} ({widths}){example}, or 'auto'")


def _bits(width: int | str | None, default: int) -> int:
    if isinstance(width, str):
        match = _NAME.fullmatch(width)
        return int(match[2]) if match else default
    return default if width is None else width


def _search(reader: Reader, value: Located) -> Search:
    if isinstance(value.value, str):
        return Search(strategy=reader.choice("search", value, STRATEGIES))
    entries = reader.mapping("search", value, ("strategy", "soft_limits", "tolerated_drop", "samples", "ram"))
    default = Search()
    soft = entries.get("soft_limits")
    samples = entries.get("samples")
    return Search(
        strategy=reader.choice("search.strategy", entries["strategy"], STRATEGIES)
        if "strategy" in entries
        else default.strategy,
        soft_limits=None
        if soft is None or soft.value == "auto"
        else reader.numbers("search.soft_limits", soft, 0.1, 4),
        tolerated_drop=reader.number("search.tolerated_drop", entries["tolerated_drop"], 0, 100)
        if "tolerated_drop" in entries
        else default.tolerated_drop,
        samples=None
        if samples is None or samples.value == "all"
        else reader.integer("search.samples", samples, 1, 10_000_000),
        ram=reader.byte_size("search.ram", entries["ram"]) if "ram" in entries else None,
    )


def _budgets(reader: Reader, value: Located) -> Budgets:
    keys = ("ram", "flash", "reserve_ram", "reserve_flash")
    entries = reader.mapping("budgets", value, keys)
    for key in ("ram", "flash"):
        reserve = f"reserve_{key}"
        if reserve in entries and key in entries and entries[key].value not in (None, "auto"):
            raise reader.error(
                "config.wrong-value",
                f"'budgets.{reserve}' is what 'budgets.{key}: auto' leaves to the rest of the firmware, but "
                f"'budgets.{key}' is given; remove one of them",
                entries[reserve].line,
            )
    return Budgets(**{key: reader.byte_size(f"budgets.{key}", item) for key, item in entries.items()})


def _memory(reader: Reader, value: Located) -> Memory:
    flags = ("in_place", "concat", "overlap", "reorder")
    entries = reader.mapping("memory", value, ("input", *flags, "planner", "timeout_s"))
    chosen: dict[str, Any] = {
        flag: reader.flag(f"memory.{flag}", entries[flag]) for flag in flags if flag in entries
    }
    if "input" in entries:
        chosen["input"] = reader.choice("memory.input", entries["input"], ("caller", "arena"))
    if "planner" in entries:
        chosen["planner"] = reader.choice("memory.planner", entries["planner"], PLANNERS)
    if "timeout_s" in entries:
        chosen["timeout_s"] = reader.number("memory.timeout_s", entries["timeout_s"], 0, 86_400)
    return Memory(**chosen)


def _outputs(reader: Reader, value: Located) -> tuple[str, ...]:
    if isinstance(value.value, str):
        return (value.value,)
    names = tuple(reader.text("outputs", item) for item in reader.sequence("outputs", value))
    if not names or len(set(names)) != len(names):
        raise reader.wrong_type("outputs", value, "a list of different names")
    return names

# SPDX-License-Identifier: Apache-2.0
"""The board's dense and convolution kernels on the emulated cores, beside SoftPosit's C.

    python benchmarks/kernels.py                # tables, and every bar with its figure
    python benchmarks/kernels.py --json         # the rows
    python benchmarks/kernels.py --cores avr    # some cores only

ARM: instructions, exact by QEMU's icount; they are not cycles. AVR: cycles of simavr. SoftPosit is PyPI's
sdist, is compiled with the same compiler and -O2, and computes some outputs of the same layer. Mismatches:
all outputs against the host's simulation, and against SoftPosit's quire on the host.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "test" / "python")]
import softposit_c  # noqa: E402
from kernel_program import Case, run  # noqa: E402

from minun_pio.board import bare  # noqa: E402
from minun_pio.errors import MinunError  # noqa: E402
from minun_pio.numerics.affine import affine_bias, affine_for_range, affine_for_weights  # noqa: E402
from minun_pio.numerics.fixed import Fixed  # noqa: E402
from minun_pio.numerics.operand import Window, patches  # noqa: E402
from minun_pio.numerics.posit import Posit  # noqa: E402
from minun_pio.ops import REGISTRY  # noqa: E402

SHAPES = {
    "m3": ((64, 32), (128, 64), (256, 128)),
    "m7": ((64, 32), (128, 64), (256, 128)),
    "avr": ((64, 32),),
}
CONV = {"m3": (32, 32, 8), "m7": (32, 32, 8), "avr": (8, 8, 8)}  # channels in and out, height and width
CMSIS = {("m3", "int8"): 3.7, ("m3", "int16"): 5.4, ("m7", "int8"): 2.3, ("m7", "int16"): 2.8}
AVR_CHIP = "atmega1284p"  # the Uno's core and cycle counts with more memory
SOFTPOSIT_OUTPUTS = 2

# label, format, what the layer is given
P80, P82, P161, P162 = Posit(8, 0), Posit(8, 2), Posit(16, 1), Posit(16, 2)
PLANS: tuple[tuple[str, Any, str], ...] = (
    ("posit<8,0> |w|<=1 |x|<2", P80, "narrow"),
    ("posit<8,0> |w|<=1", P80, "small"),
    ("posit<8,0> |w|<=1, many |x|>=2", P80, "far"),
    ("posit<8,0> table", P80, "large"),
    ("posit<8,1>", Posit(8, 1), "small"),
    ("posit<8,2>", P82, "small"),
    ("posit<12,2>", Posit(12, 2), "small"),
    ("posit<16,1>", P161, "small"),
    ("posit<16,2>", P162, "small"),
    ("fixed<8,-5>", Fixed(8, -5), "small"),
    ("fixed<16,-11>", Fixed(16, -11), "small"),
    ("int8", None, "small"),
)
BARS: tuple[tuple[str, str, str, float], ...] = (  # core, operator, label, at most
    *(("m3", "dense", label, bar) for label, bar in (("posit<8,0> |w|<=1", 2.95), ("posit<8,0> table", 4.0))),
    *(("m3", "dense", label, bar) for label, bar in (("posit<8,2>", 4.2), ("posit<16,1>", 8.0))),
    *(("m3", "dense", label, bar) for label, bar in (("posit<16,2>", 8.8), ("fixed<8,-5>", 3.0))),
    ("m3", "dense", "fixed<16,-11>", 3.0),
    *(("m7", "dense", label, bar) for label, bar in (("posit<8,0> |w|<=1", 2.0), ("posit<8,0> table", 4.0))),
    *(("m7", "dense", label, bar) for label, bar in (("posit<8,2>", 4.7), ("posit<16,1>", 8.2))),
    ("m7", "dense", "posit<16,2>", 9.0),
    *(
        ("avr", "dense", label, bar)
        for label, bar in (
            ("posit<8,0> |w|<=1 |x|<2", 14.5),
            ("posit<8,0> |w|<=1", 20.6),
            ("posit<8,0> |w|<=1, many |x|>=2", 20.6),
        )
    ),
    *(("avr", "dense", label, bar) for label, bar in (("posit<8,0> table", 44.5), ("posit<8,2>", 58.0))),
    *(("avr", "dense", label, bar) for label, bar in (("posit<16,1>", 135.0), ("posit<16,2>", 200.0))),
    *(("m3", "conv", label, bar) for label, bar in (("posit<8,0> table", 3.3), ("posit<8,2>", 3.5))),
    *(("m3", "conv", label, bar) for label, bar in (("posit<16,1>", 3.5), ("posit<16,2>", 3.7))),
    *(
        ("avr", "conv", label, bar)
        for label, bar in (("posit<8,0> |w|<=1 |x|<2", 19.0), ("posit<8,0> |w|<=1", 20.0))
    ),
    *(("avr", "conv", label, bar) for label, bar in (("posit<8,0> table", 51.0), ("posit<8,2>", 72.0))),
    *(("avr", "conv", label, bar) for label, bar in (("posit<16,1>", 137.0), ("posit<16,2>", 162.0))),
    *(("avr", "conv", label, bar) for label, bar in (("fixed<8,-5>", 17.6), ("fixed<16,-11>", 45.0))),
    ("avr", "conv", "int8", 24.0),
    *(("m3", "slow path", label, 65.0) for label in ("posit<8,2>", "posit<16,1>", "posit<16,2>")),
)
TIMES_FEWER: dict[str, tuple[float, float]] = {  # M3, dense 128x64: than SoftPosit's mul+add, its quire
    "posit<8,0> |w|<=1": (25.0, 13.0),
    "posit<8,2>": (36.0, 85.0),
    "posit<16,1>": (13.5, 12.0),
    "posit<16,2>": (17.0, 41.0),
}


@dataclass(frozen=True)
class Layer:
    """One case, its shape in words, and its multiplications."""

    operator: str
    shape: str
    case: Case
    macs: int


def dense_layer(rng: np.random.Generator, fmt: Any, kind: str, inputs: int, outputs: int) -> Layer:
    """Inputs half zero as after a ReLU, weights of a trained layer's size; `kind` as the label says."""
    x = np.maximum(rng.normal(0, 0.8, inputs), 0)
    x[::5] = rng.normal(0, 0.5, x[::5].size)
    far = 4.0 if kind == "far" else 1.0
    x *= far
    x = np.clip(x, -1.9, 1.9) if kind == "narrow" else np.append(x[:-1], 2.5)
    weights = np.clip(rng.normal(0, 1 / np.sqrt(inputs), (outputs, inputs)), -1, 1) / far
    if kind == "large":
        weights[0, 0] = 1.5
    return Layer(
        "dense",
        f"{inputs}x{outputs}",
        _case("dense", fmt, x[None], weights, rng.normal(0, 0.1, outputs), {}),
        inputs * outputs,
    )


def conv_layer(
    rng: np.random.Generator,
    fmt: Any,
    kind: str,
    channels: int,
    out: int,
    side: int,
    kernel: int,
    groups: int,
) -> Layer:
    """As many outputs as inputs in height and width; groups 1 or, depthwise, the channels."""
    per_group = channels // groups
    taps = kernel * kernel * per_group
    x = np.maximum(rng.normal(0, 0.8, (1, 1, side, side, channels)), 0)
    if kind == "narrow":
        x = np.clip(x, -1.9, 1.9)
    elif kind == "far":
        x *= 4.0
    weights = np.clip(rng.normal(0, 1 / np.sqrt(taps), (out, kernel, kernel, per_group)), -1, 1)
    if kind == "far":
        weights /= 4.0
    if kind == "large":
        weights[0, 0, 0, 0] = 1.5
    attrs = {"pads": (kernel // 2,) * 4, "groups": groups}
    case = _case("conv", fmt, x, weights, rng.normal(0, 0.1, out), attrs)
    name = "depthwise" if groups > 1 else f"{channels}->{out}"
    shape = f"{kernel}x{kernel} {name} {channels if groups > 1 else ''}".strip() + f" on {side}x{side}"
    return Layer("conv", shape, case, side * side * out * taps)


def conv_layers(rng: np.random.Generator, fmt: Any, kind: str, core: str) -> list[Layer]:
    """3x3; on AVR also with one channel, depthwise and 1x1."""
    channels, out, side = CONV[core]
    layers = [conv_layer(rng, fmt, kind, channels, out, side, 3, 1)]
    if core == "avr":
        layers.append(conv_layer(rng, fmt, kind, 1, 8, 12, 3, 1))
        layers.append(conv_layer(rng, fmt, kind, 16, 16, 8, 3, 16))
        layers.append(conv_layer(rng, fmt, kind, 16, 16, 8, 1, 1))
    return layers


def _case(op: str, fmt: Any, x: Any, weights: Any, bias: Any, attrs: dict[str, Any]) -> Case:
    if fmt is not None:
        return Case(op, {0: fmt.encode(x)}, {1: weights, 2: bias}, {0: fmt, 1: fmt, 2: fmt}, fmt, attrs)
    fx, fw = affine_for_range(-2.0, 3.0), affine_for_weights(weights, 0)
    formats = {0: fx, 1: fw, 2: affine_bias(fx, fw)}
    return Case(op, {0: fx.encode(x)}, {1: weights, 2: bias}, formats, affine_for_range(-4.0, 4.0), attrs)


def measure(
    core: str, label: str, fmt: Any, kind: str, rival: dict[str, float | None], lib: Any
) -> list[dict[str, Any]]:
    """Rows of one format on one core."""
    rng = np.random.default_rng(5)
    layers = [dense_layer(rng, fmt, kind, *shape) for shape in SHAPES[core]]
    layers += conv_layers(rng, fmt, kind, core)
    rows = []
    groups = [[layer] for layer in layers] if core == "avr" else [layers]
    for group in groups:
        options: dict[str, Any] = {"mcu": AVR_CHIP} if core == "avr" else {}
        with tempfile.TemporaryDirectory() as folder:
            outputs, calls, result = run(core, [layer.case for layer in group], folder=folder, **options)
        for i, (layer, output, call) in enumerate(zip(group, outputs, calls, strict=True)):
            binding = layer.case.binding(core)
            traits = REGISTRY[layer.operator].traits(binding)
            decoding = [table for table in call.tables if table.hint in ("values", "words", "pieces")]
            rows.append(
                {
                    "core": core,
                    "operator": layer.operator,
                    "shape": layer.shape,
                    "format": label,
                    "variant": call.variant,
                    "per_mac": round(result.marks[i] / layer.macs, 3),
                    "unit": result.unit,
                    "softposit_muladd_per_mac": rival.get("muladd"),
                    "softposit_quire_per_mac": rival.get("quire"),
                    "code_bytes": _code_bytes(result.symbols, layer.operator, alone=len(group) == 1),
                    "table_bytes": sum(len(t.values) * _width(t.ctype) for t in decoding),
                    "scratch_bytes": traits.scratch_bytes,
                    "mismatches_host": int(np.sum(output != layer.case.expected())),
                    "mismatches_softposit": _softposit_mismatches(lib, fmt, layer, output),
                }
            )
    return rows


def _width(ctype: str) -> int:
    return int("".join(c for c in ctype if c.isdigit())) // 8


def _code_bytes(symbols: Any, operator: str, alone: bool) -> int:
    """Bytes of the runtime's functions; of a layer not alone in its image, less the other operator's."""
    other = "conv" if operator == "dense" else "dense"
    ours = {name: size for name, size in symbols.items() if "5minun" in name}
    return sum(size for name, size in ours.items() if alone or other not in name)


def _softposit_mismatches(lib: Any, fmt: Any, layer: Layer, output: Any) -> int | None:
    """Differences from SoftPosit's quire, the bias as one more product with 1."""
    if not isinstance(fmt, Posit) or not softposit_c.has_quire(fmt):
        return None
    codes = layer.case.inputs[0]
    weights, bias = (fmt.encode(layer.case.constants[i]) for i in (1, 2))
    if layer.operator == "conv":
        if layer.case.attrs["groups"] > 1:
            return None
        window = Window(weights.shape[1:3], pads=layer.case.attrs["pads"])
        rows = patches(codes[:, 0], window).reshape(-1, weights[0].size)
        weights = weights.reshape(weights.shape[0], -1)
    else:
        rows = codes
    one = np.full((rows.shape[0], 1), 1 << (fmt.n - 2), rows.dtype)
    left, right = np.concatenate([rows, one], axis=1), np.concatenate([weights, bias[:, None]], axis=1)
    expected = softposit_c.quire_matmul(lib, fmt, left, right)
    return int(np.sum(expected.ravel() != output.ravel()))


def softposit_on_board(core: str, fmt: Any) -> dict[str, float | None]:
    """Instructions (cycles) per product of SoftPosit's mul+add and quire; None where it does not end."""
    if not isinstance(fmt, Posit) or not softposit_c.has_quire(fmt) or fmt.n == 12:
        return {}
    inputs, outputs = (64 if core == "avr" else 128), SOFTPOSIT_OUTPUTS
    layer = dense_layer(np.random.default_rng(5), fmt, "small", inputs, outputs)
    tree = softposit_c.source()
    ctype = f"uint{8 * fmt.storage.itemsize}_t"
    unsigned = f"u{fmt.storage.itemsize}"
    result: dict[str, float | None] = {}
    for function in ("muladd", "quire"):
        text = f'#include "bare.h"\ntypedef {ctype} Code;\n'
        text += f'extern "C" void {function}(const Code*, const Code*, Code*, int, int);\n'
        for name, codes in (("w", fmt.encode(layer.case.constants[1])), ("x", layer.case.inputs[0])):
            listed = ",".join(str(v) for v in codes.view(unsigned).ravel())
            text += f"static Code {name}[] = {{{listed}}};\n"
        text += f"static Code y[{outputs}];\nint main() {{\n  bare::begin(0);\n"
        text += f"  {function}(w, x, y, {inputs}, {outputs});\n"
        text += "  bare::end(0);\n  bare::write(y, sizeof y);\n  return 0;\n}\n"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "main.cpp").write_text(text)
            unused = ("div", "sqrt", "Dec", "mulAdd", "roundToInt")  # some need a larger C library than AVR's
            everything = sorted((tree / "source").glob("*.c"))
            needed = [path for path in everything if not any(word in path.name for word in unused)]
            image = bare.build(
                core,
                [folder / "main.cpp", Path(__file__).with_name("softposit_board.c"), *needed],
                folder / "program.elf",
                defines=["INLINE=inline", "SOFTPOSIT_FAST_INT64", f"FORMAT={_family(fmt)}", f"BITS={fmt.n}"],
                include_dirs=[tree / "source" / "include", tree / "build" / "Linux-x86_64-GCC"],
                link_flags=["-lm"],
                mcu=AVR_CHIP if core == "avr" else None,
                warnings=("-w",),
            )
            try:
                marks = image.run(timeout_s=20).marks
                result[function] = round(marks[0] / layer.macs, 1)
            except MinunError:
                result[function] = None
    return result


def _family(fmt: Posit) -> int:
    return {(8, 0): 80, (16, 1): 161}.get((fmt.n, fmt.es), 2)


def slow_path(core: str, label: str, fmt: Posit) -> dict[str, Any]:
    """The exact sums, forced by an input of the largest and one of the smallest magnitude."""
    layer = dense_layer(np.random.default_rng(5), fmt, "small", 128, 64)
    codes = layer.case.inputs[0]
    codes[0, :2] = fmt.max_code, 1
    with tempfile.TemporaryDirectory() as folder:
        outputs, _, result = run(core, [layer.case], folder=folder)
    return {
        "core": core,
        "operator": "slow path",
        "shape": layer.shape,
        "format": label,
        "variant": "exact",
        "per_mac": round(result.marks[0] / layer.macs, 3),
        "unit": result.unit,
        "mismatches_host": int(np.sum(outputs[0] != layer.case.expected())),
    }


def collect(cores: list[str]) -> list[dict[str, Any]]:
    lib = softposit_c.library()
    rows = []
    for core in cores:
        rivals: dict[Any, dict[str, float | None]] = {}
        for label, fmt, kind in PLANS:
            if fmt not in rivals:
                rivals[fmt] = softposit_on_board(core, fmt)
            rows += measure(core, label, fmt, kind, rivals[fmt], lib)
        if core == "m3":
            rows += [slow_path(core, f.name, f) for f in (P82, P161, P162)]
    return rows


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each bar with its figure; dense 128x64, on AVR 64x32; the first convolution."""
    found = []
    first = {core: f"3x3 {channels}->{out} on {side}x{side}" for core, (channels, out, side) in CONV.items()}
    for core, operator, label, most in BARS:
        for row in rows:
            shapes = {"dense": "64x32" if core == "avr" else "128x64", "conv": first[core]}
            at = shapes.get(operator, row["shape"])
            if (row["core"], row["operator"], row["format"], row["shape"]) == (core, operator, label, at):
                figure = row["per_mac"]
                found.append(
                    {
                        "bar": f"{core} {operator} {label}",
                        "at_most": most,
                        "figure": figure,
                        "met": figure <= most,
                    }
                )
                if core == "m3" and operator == "dense" and label in TIMES_FEWER:
                    for key, least in zip(("muladd", "quire"), TIMES_FEWER[label], strict=True):
                        rival = row[f"softposit_{key}_per_mac"]
                        times = None if rival is None else round(rival / figure, 1)
                        met = times is not None and times >= least
                        name = f"m3 dense {label}: times fewer than SoftPosit {key}"
                        found.append({"bar": name, "at_least": least, "figure": times, "met": met})
    wrong = sum(row["mismatches_host"] + (row.get("mismatches_softposit") or 0) for row in rows)
    found.append(
        {
            "bar": "outputs that differ from the host or SoftPosit",
            "at_most": 0,
            "figure": wrong,
            "met": wrong == 0,
        }
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cores", default="m3,m7,avr")
    arguments = parser.parse_args()
    rows = collect(arguments.cores.split(","))
    found = bars(rows)
    if arguments.json:
        print(json.dumps({"rows": rows, "bars": found}, indent=1))
        return
    head = ("core", "operator", "shape", "format", "variant", "per_mac", "softposit_muladd_per_mac")
    head += ("softposit_quire_per_mac", "code_bytes", "table_bytes", "scratch_bytes", "mismatches_host")
    print("| " + " | ".join((*head, "mismatches_softposit", "of CMSIS-NN")) + " |")
    print("|" + "---|" * (len(head) + 2))
    for row in rows:
        width = "int16" if "16" in row["format"] else "int8"
        cmsis = CMSIS.get((row["core"], width))
        ratio = f"{row['per_mac'] / cmsis:.2f}" if cmsis and row["operator"] == "dense" else ""
        cells = [str(row.get(key, "")) for key in (*head, "mismatches_softposit")]
        print("| " + " | ".join((*cells, ratio)) + " |")
    print()
    for bar in found:
        limit = f"at most {bar['at_most']}" if "at_most" in bar else f"at least {bar['at_least']}"
        print(f"{'met   ' if bar['met'] else 'MISSED'} {bar['bar']}: {bar['figure']} ({limit})")


if __name__ == "__main__":
    main()

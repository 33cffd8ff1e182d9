# SPDX-License-Identifier: Apache-2.0
"""A linked image without heap functions passes, one with them is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emitted_model import INCLUDE, emit
from small_networks import convolutions, recurrent

from minun_pio.emit.link_check import check_no_heap, heap_functions, read_image
from minun_pio.emit.lower import lower
from minun_pio.emit.write import write
from minun_pio.errors import MinunError
from minun_pio.numerics.fixed import Fixed
from minun_pio.numerics.floats import Float32
from minun_pio.numerics.posit import Posit
from minun_pio.schedule.arena import place
from minun_pio.schedule.layout import lay_out
from minun_pio.simulate.assign import uniform
from minun_pio.simulate.legalise import legalise

ARM = [
    "arm-none-eabi-g++",
    "-mcpu=cortex-m3",
    "-mthumb",
    "-Os",
    "-std=c++11",
    "-fno-exceptions",
    "-nostartfiles",
]


def link(main: str, folder: Path) -> Path:
    if shutil.which(ARM[0]) is None:
        pytest.skip(f"{ARM[0]} is not installed")
    (folder / "main.cpp").write_text(main)
    binary = folder / "firmware.elf"
    sources = [str(p) for p in folder.glob("*.cpp")]
    command = [*ARM, "-I", str(INCLUDE), "-ffunction-sections", "-Wl,--gc-sections", "-Wl,-emain"]
    subprocess.run(
        [*command, "--specs=nosys.specs", "-w", *sources, "-o", str(binary)], check=True, capture_output=True
    )
    return binary


def test_a_linked_model_has_no_heap_function_and_its_sizes_are_told(tmp_path: Path):
    x = np.ones((1, 5, 1, 3))
    emitted = emit(recurrent(), uniform(recurrent(), Posit(16, 1)), x, tmp_path, options=("-O0",))
    image = check_no_heap(
        link(
            '#include "tiny.h"\n'
            "alignas(8) static uint8_t arena[tiny::kArenaBytes];\n"
            "static tiny::InputCode in[tiny::kInputBytes / sizeof(tiny::InputCode)];\n"
            "static tiny::OutputCode out[1];\n"
            "int main() { return (int)tiny::infer(in, out, arena, sizeof arena); }\n",
            tmp_path,
        )
    )
    at_least = emitted.program.arena.bytes + emitted.program.input_bytes + emitted.program.output_bytes
    assert at_least <= image.sram_bytes < at_least + 200
    assert image.flash_bytes > emitted.program.flash.constants
    assert "main" in image.symbols


def test_a_heap_function_in_the_image_is_named(tmp_path: Path):
    binary = link(
        "#include <stdlib.h>\n"
        "int main(int n, char**) { int* p = (int*)malloc(n); return p == 0 ? 1 : p[0]; }\n",
        tmp_path,
    )
    with pytest.raises(MinunError, match="malloc"):
        check_no_heap(binary)


def test_new_and_delete_count_as_heap_functions():
    assert heap_functions(["_Znwj", "_ZdlPv", "main", "freedom"]) == ("_ZdlPv", "_Znwj")


def test_a_file_that_is_no_elf_is_one_clear_line(tmp_path: Path):
    file = tmp_path / "firmware.elf"
    file.write_text("text")
    with pytest.raises(MinunError, match=r"not an ELF .* say custom_minun_no_heap = no"):
        read_image(file)


@pytest.mark.parametrize(
    "fmt", [Posit(8, 0), Posit(8, 2), Posit(16, 1), Fixed(8, -5), Float32()], ids=lambda f: f.name
)
def test_the_estimate_of_code_is_within_a_third(fmt, tmp_path: Path):
    graph = convolutions()
    placement = place(lay_out(legalise(graph, uniform(graph, fmt)), "m3"))
    program = lower(placement, "net")
    for name, text in write(program).items():
        (tmp_path / name).write_text(text)
    image = read_image(
        link(
            '#include "net.h"\n'
            "alignas(8) static uint8_t arena[net::kArenaBytes];\n"
            "static net::InputCode in[net::kInputBytes];\n"
            "static net::OutputCode out;\n"
            "int main() { return (int)net::infer(in, &out, arena, sizeof arena); }\n",
            tmp_path,
        )
    )
    code = image.flash_bytes - program.flash.constants - program.flash.tables
    assert code / 1.5 < program.flash.code_estimate < code * 1.5

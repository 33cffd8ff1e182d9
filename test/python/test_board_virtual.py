# SPDX-License-Identifier: Apache-2.0
"""The virtual boards as a user meets them: upload starts one, its port answers, stop ends it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_projects import ALL_BOARDS, MAIN, make_project, need_virtual_boards, pio

from minun_pio.board import virtual
from minun_pio.board.collect import Board, collect
from minun_pio.board.port import open_port
from minun_pio.board.toolchain import image_sizes
from minun_pio.errors import MinunError

BOARDS = ("uno_sim", "due_sim", "stm32h747_sim", "native")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need_virtual_boards()
    folder = make_project(tmp_path_factory.mktemp("boards") / "a project", ALL_BOARDS)
    try:
        pio(folder, "run", "-t", "upload")
        yield folder
    finally:
        for board in BOARDS:
            virtual.stop(virtual.board_dir(folder, board))


def _samples(count: int) -> list[bytes]:
    return [struct.pack("8b", k % 12, *((k * j * 7) % 256 - 128 for j in range(7))) for k in range(count)]


def _answer(sample: bytes) -> bytes:
    codes = struct.unpack("8b", sample)
    work = 0
    for i in range(codes[0] * 1000):
        work = (work * 3 + i) & 0xFFFF
    return struct.pack("<hH", sum(codes), work)


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_answers_over_its_port_with_the_hosts_bits(project: Path, board: str) -> None:
    place = virtual.board_dir(project, board)
    running = virtual.running(place)
    assert running is not None
    samples = _samples(40)
    done = collect(running.port, samples, "toy", expected_hash=0x12345678)
    assert [record.output for record in done.records] == [_answer(sample) for sample in samples]
    assert done.arena_used_bytes == 16
    assert done.resets == 0
    if board != "native":
        assert 0 < done.description.stack_used_bytes < 400
        assert done.greeting.stack_room_bytes > done.description.stack_used_bytes


@pytest.mark.parametrize(
    ("board", "unit", "per_thousand"), [("uno_sim", "cycles", None), ("due_sim", "instructions", 5000)]
)
def test_latency_is_exact_and_grows_with_the_work(
    project: Path, board: str, unit: str, per_thousand: int | None
) -> None:
    running = virtual.running(virtual.board_dir(project, board))
    assert running is not None
    done = collect(running.port, [bytes([k, *bytes(7)]) for k in (0, 1, 2, 10, 10)], "toy")
    assert done.greeting.latency_unit == unit
    latency = [record.latency or 0 for record in done.records]
    assert latency[3] == latency[4]
    step = latency[2] - latency[1]
    if per_thousand is None:
        # By the simulator's own clock; in long runs the timer's interrupts are in its count, not in ours.
        marks = re.findall(r"mark 1 (\d+)\nmark 2 (\d+)", (running.folder / "log").read_text())
        true = [int(end) - int(begin) for begin, end in marks[-5:]]
        overhead = latency[0] - true[0]
        assert 0 <= overhead < 100
        assert latency[1] - overhead == true[1]
        assert abs(latency[3] - overhead - true[3]) < true[3] * 0.001
    else:
        assert step == per_thousand
    assert latency[3] - latency[1] == 9 * step


@pytest.mark.parametrize("board", ["uno_sim", "due_sim", "stm32h747_sim"])
def test_a_reset_in_the_middle_is_survived(project: Path, board: str) -> None:
    place = virtual.board_dir(project, board)
    running = virtual.running(place)
    assert running is not None
    samples = _samples(30)

    def press(done: int) -> None:
        if done in (7, 20):
            virtual.reset(place)
            time.sleep(0.05)

    done = collect(running.port, samples, "toy", progress=press)
    assert [record.output for record in done.records] == [_answer(sample) for sample in samples]
    assert done.resets == 2
    assert virtual.running(place) == running


def test_a_port_serves_one_program_at_a_time(project: Path) -> None:
    running = virtual.running(virtual.board_dir(project, "native"))
    assert running is not None
    with Board(open_port(running.port)), pytest.raises(MinunError, match="another program uses the port"):
        open_port(running.port)


def test_the_next_upload_ends_the_board_and_stop_leaves_nothing(project: Path) -> None:
    place = virtual.board_dir(project, "due_sim")
    before = virtual.running(place)
    assert before is not None
    pio(project, "run", "-e", "due_sim", "-t", "upload")
    after = virtual.running(place)
    assert after is not None
    assert after.pid != before.pid
    assert not Path(f"/proc/{before.pid}").exists() or virtual._start_time(before.pid) == 0
    assert after in virtual.all_running()
    assert virtual.stop(place)
    assert not virtual.stop(place)
    assert virtual.running(place) is None
    assert not os.path.lexists(after.port)
    assert not os.path.exists(after.monitor)
    with pytest.raises(MinunError, match="no virtual board runs here"):
        virtual.reset(place)


def test_a_board_whose_folder_was_deleted_is_still_found_and_ended(project: Path) -> None:
    pio(project, "run", "-e", "native", "-t", "upload")
    place = virtual.board_dir(project, "native")
    board = virtual.running(place)
    assert board is not None
    shutil.rmtree(place)
    assert virtual.running(place) == board
    assert board in virtual.all_running()
    assert virtual.stop(place)
    assert virtual._start_time(board.pid) == 0


def test_stop_never_ends_a_process_that_is_not_the_boards(tmp_path: Path) -> None:
    # Process ids are used again: one that is alive but started at another time is left alone.
    (tmp_path / "board.json").write_text(
        f'{{"board": "native", "pid": {os.getpid()}, "started": 1, "port": "{tmp_path}/port",'
        ' "firmware": "x", "monitor": ""}'
    )
    assert virtual.running(tmp_path) is None
    assert virtual.stop(tmp_path) is False


def test_a_firmware_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    need_virtual_boards()
    wrong = tmp_path / "firmware.elf"
    wrong.write_bytes(b"not a program")
    with pytest.raises(MinunError, match="not a linked firmware"):
        virtual.start("due_sim", wrong, tmp_path / "due_sim")
    wrong.write_bytes(b"\x7fELF and no more")
    for board in ("uno_sim", "due_sim"):
        with pytest.raises(MinunError, match="not a linked firmware") as caught:
            virtual.start(board, wrong, tmp_path / board)
        assert "\n" not in str(caught.value)
        assert virtual.running(tmp_path / board) is None
    with pytest.raises(MinunError, match=r"for uno_sim: its machine is .*, expected EM_AVR"):
        virtual.start("uno_sim", "/bin/sh", tmp_path / "uno_sim")
    with pytest.raises(MinunError, match="no such firmware"):
        virtual.start("due_sim", tmp_path / "absent.elf", tmp_path / "due_sim")
    with pytest.raises(MinunError, match="no virtual board 'mega'"):
        virtual.start("mega", wrong, tmp_path / "mega")


_NO_LINK = re.sub(
    r"static const minun::Model.*",
    "static int8_t in[8];\nstatic int16_t out[2];\nvoid setup() {}\n"
    "void loop() {\n  in[0] = static_cast<int8_t>(PINB);\n  toy::infer(in, out, arena, sizeof arena);\n"
    "  PORTB = static_cast<uint8_t>(out[0]);\n}\n",
    MAIN,
    flags=re.S,
).replace("#include <minun/serve.h>", "#include <Arduino.h>")


def test_the_link_costs_an_uno_under_2560_bytes_of_flash_and_200_of_ram(tmp_path: Path) -> None:
    need_virtual_boards()
    uno = "[env:uno_sim]\nboard = uno_sim\nframework = arduino\n"
    sizes = []
    for name, main in (("with", MAIN), ("without", _NO_LINK)):
        folder = make_project(tmp_path / name, uno, main)
        pio(folder, "run")
        sizes.append(image_sizes(folder / ".pio" / "build" / "uno_sim" / "firmware.elf"))
    flash, ram = sizes[0].flash - sizes[1].flash, sizes[0].ram - sizes[1].ram
    assert 1000 < flash < 2560
    assert 30 < ram < 200


@pytest.mark.parametrize(
    ("environment", "declaration"),
    [
        ("uno_sim", "uint8_t big[2300];"),
        ("due_sim", "uint8_t big[97 * 1024];"),
        ("stm32h747_sim", "uint8_t big[511 * 1024 + 512];"),
        ("due_sim", "extern const uint8_t big[512 * 1024] = {1};"),
    ],
)
def test_what_would_not_fit_the_real_board_does_not_fit_the_virtual_one(
    tmp_path: Path, environment: str, declaration: str
) -> None:
    need_virtual_boards()
    main = f"{MAIN}\n{declaration}\n" + "const volatile void* keep() { return big; }\n"
    use = "extern const volatile void* keep();\n  arena[0] ^= *static_cast<const volatile uint8_t*>(keep());"
    main = main.replace("board.begin();", f"board.begin();\n  {use}")
    section = ALL_BOARDS[ALL_BOARDS.index(f"[env:{environment}]") :].split("\n[", 1)[0]
    done = pio(make_project(tmp_path / "big", section, main), "run", check=False)
    assert done.returncode != 0
    said = "overflowed|will not fit|not within region|greater than maximum|less than 1 KB"
    assert re.search(said, done.stdout + done.stderr)


def test_a_variable_can_lie_in_another_bank_of_the_h747(tmp_path: Path) -> None:
    need_virtual_boards()
    placed = '__attribute__((section(".dtcm"))) static uint8_t arena'
    main = MAIN.replace("static uint8_t arena", placed)
    section = "[env:stm32h747_sim]\nboard = stm32h747_sim\n"
    folder = make_project(tmp_path / "dtcm", section, main)
    pio(folder, "run", "-t", "upload")
    place = virtual.board_dir(folder, "stm32h747_sim")
    try:
        samples = _samples(5)
        done = collect(str(place / "port"), samples, "toy")
        assert [record.output for record in done.records] == [_answer(sample) for sample in samples]
    finally:
        virtual.stop(place)
    from elftools.elf.elffile import ELFFile

    with (folder / ".pio/build/stm32h747_sim/firmware.elf").open("rb") as file:
        (arena,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("_ZL5arena")
        assert 0x20100000 <= arena["st_value"] < 0x20120000

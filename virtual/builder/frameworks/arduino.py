# SPDX-License-Identifier: Apache-2.0
"""Debian's Arduino core for AVR, with the flags PlatformIO's own AVR platform uses."""

import os
import sys

from SCons.Script import DefaultEnvironment

env = DefaultEnvironment()
board = env.BoardConfig()
core_dir = os.environ.get("ARDUINO_AVR_CORE", "/usr/share/arduino/hardware/arduino/avr")
if not os.path.isdir(core_dir):
    sys.stderr.write(f"Error: the Arduino core is not in {core_dir}; run: make setup\n")
    env.Exit(1)

machine = ["-mmcu=$BOARD_MCU"]
env.Append(
    ASFLAGS=machine,
    ASPPFLAGS=["-x", "assembler-with-cpp", *machine],
    CFLAGS=["-std=gnu11", "-fno-fat-lto-objects"],
    CCFLAGS=[*machine, "-Os", "-Wall", "-ffunction-sections", "-fdata-sections", "-flto"],
    CXXFLAGS=["-std=gnu++11", "-fno-exceptions", "-fno-threadsafe-statics", "-fpermissive"],
    LINKFLAGS=[*machine, "-Os", "-Wl,--gc-sections", "-flto", "-fuse-linker-plugin"],
    # Debian's avr-libc lacks DECIMAL_DIG in C++, which the core's Print wants.
    CPPDEFINES=[
        ("F_CPU", "$BOARD_F_CPU"),
        "ARDUINO_ARCH_AVR",
        ("ARDUINO", 10808),
        ("DECIMAL_DIG", "__DECIMAL_DIG__"),
    ],
    LIBS=["m"],
    LIBSOURCE_DIRS=[os.path.join(core_dir, "libraries")],
    CPPPATH=[
        os.path.join(core_dir, "cores", "arduino"),
        os.path.join(core_dir, "variants", board.get("build.variant")),
    ],
)
env.Prepend(
    LIBS=[
        env.BuildLibrary(
            os.path.join("$BUILD_DIR", "FrameworkArduino"), os.path.join(core_dir, "cores", "arduino")
        )
    ]
)

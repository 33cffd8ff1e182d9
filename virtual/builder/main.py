# SPDX-License-Identifier: Apache-2.0
"""Builds for a virtual board with the system's compilers; `upload` starts its emulator, the port is a pty."""

import os
import sys

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
platform_dir = os.path.realpath(env.PioPlatform().get_dir())
support_dir = os.path.join(platform_dir, "support")
board = env.BoardConfig()
toolchain = board.get("build.toolchain")
prefix = {"avr": "avr-", "arm": "arm-none-eabi-", "host": ""}[toolchain]


def refuse(line):
    sys.stderr.write(f"Error: {line}\n")
    env.Exit(1)


if not sys.platform.startswith("linux"):
    refuse("virtual boards, native too, run on Linux only; name the environment of a board: pio run -e due")
for tool in (prefix + "g++", prefix + "gcc-ar"):
    if not env.WhereIs(tool):
        refuse(f"'{tool}' is not installed; run: make setup")

env.Replace(
    AR=prefix + "gcc-ar",
    AS=prefix + "as",
    CC=prefix + "gcc",
    CXX=prefix + "g++",
    OBJCOPY=prefix + "objcopy",
    RANLIB=prefix + "gcc-ranlib",
    SIZETOOL=prefix + "size",
    ARFLAGS=["rc"],
    PROGSUFFIX="" if toolchain == "host" else ".elf",
    SIZEPROGREGEXP=r"^(?:\.text|\.data|\.rodata|\.ARM\.exidx|\.ARM\.extab|\.bootloader)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
)
if env.get("PROGNAME", "program") == "program" and toolchain != "host":
    env.Replace(PROGNAME="firmware")
# Another firmware or test opens the same port: no user has to name it.
board_dir = os.path.join(env.subst("$PROJECT_WORKSPACE_DIR"), "minun", env.subst("$PIOENV"))
env.Replace(UPLOAD_PORT=os.path.join(board_dir, "port"))

if toolchain == "arm":
    machine = board.get("build.machine_flags")
    env.Append(
        ASFLAGS=machine,
        ASPPFLAGS=["-x", "assembler-with-cpp", *machine],
        CCFLAGS=[*machine, "-O2", "-Wall", "-ffunction-sections", "-fdata-sections"],
        CXXFLAGS=["-std=gnu++11", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"],
        LINKFLAGS=[
            *machine,
            "-nostartfiles",
            "--specs=nano.specs",
            "--specs=nosys.specs",
            "-Wl,--gc-sections",
            "-Wl,--no-warn-rwx-segments",
        ],
        CPPDEFINES=[("F_CPU", "$BOARD_F_CPU")],
        CPPPATH=[support_dir],
        LIBPATH=[support_dir],
        LIBS=["m", "c", "gcc"],
    )
    env.Replace(LDSCRIPT_PATH=os.path.join(support_dir, board.get("build.ldscript")))
elif toolchain == "host":
    env.Append(
        CCFLAGS=["-O2", "-Wall"],
        CXXFLAGS=["-std=gnu++11"],
        CPPPATH=[support_dir],
    )
if toolchain != "avr":
    # An archive: a firmware that defines its own main() gets its own.
    sources = "+<*.cpp> -<arm_*.cpp>" if toolchain == "host" else "+<*.cpp> -<host_*.cpp>"
    env.Prepend(LIBS=[env.BuildLibrary(os.path.join("$BUILD_DIR", "VirtualBoard"), support_dir, sources)])

program = env.BuildProgram()
if toolchain == "host":
    env.Replace(SIZETOOL=None)


def upload(target, source, env):
    sys.path.insert(0, os.path.dirname(platform_dir))
    from minun_pio.board import virtual
    from minun_pio.errors import MinunError

    try:
        started = virtual.start(env.BoardConfig().id, str(source[0]), board_dir)
    except MinunError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    print(f"{started.board} is running (pid {started.pid}), port {os.path.relpath(started.port)}")
    return 0


buildprog = env.Alias("buildprog", program, program)
AlwaysBuild(env.Alias("nobuild", program))
env.AddPlatformTarget(
    "size", program, env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE"), "Program Size"
)
env.AddPlatformTarget("upload", program, [env.VerboseAction(upload, "Starting $SOURCE")], "Upload")
Default([buildprog])

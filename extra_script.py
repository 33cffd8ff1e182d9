# SPDX-License-Identifier: Apache-2.0
# Serves as the library's script under `lib_deps` and as `extra_scripts = pre:.../extra_script.py`.
# PlatformIO runs on older Pythons than minun_pio: this and minun_pio/__init__.py keep to the syntax of 3.6.
import os
import sys

from SCons.Script import ARGUMENTS, COMMAND_LINE_TARGETS, DefaultEnvironment, Import

Import("env")
if sys.version_info < (3, 10):  # noqa: UP036
    found = f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    sys.stderr.write(
        f"Error: minun: PlatformIO runs on {found}, minun_pio needs 3.10 or newer; install PlatformIO with a "
        "newer Python [python.version]\n"
    )
    env.Exit(1)  # noqa: F821

root = os.path.dirname(os.path.realpath(sys._getframe().f_code.co_filename))
installed = not os.path.isdir(os.path.join(root, "minun_pio"))  # then this is <packages>/minun_pio/library
home = os.path.dirname(os.path.dirname(root)) if installed else root
sys.path.insert(0, home)
try:
    Import("projenv")  # there once PlatformIO has begun to look for libraries
except Exception:
    projenv = DefaultEnvironment()

from minun_pio.integrations.platformio import extend  # noqa: E402

if installed:  # this minun_pio, but PlatformIO's own packages before others of that folder
    sys.path.remove(home)
    sys.path.append(home)
verbose = bool(int(ARGUMENTS.get("PIOVERBOSE", 0)))
extend(env, DefaultEnvironment(), projenv, root, list(COMMAND_LINE_TARGETS), verbose)  # noqa: F821

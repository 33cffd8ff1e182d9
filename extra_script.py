# SPDX-License-Identifier: Apache-2.0
# Serves as the library's script under `lib_deps` and as `extra_scripts = pre:.../extra_script.py`.
import os
import sys

from SCons.Script import ARGUMENTS, COMMAND_LINE_TARGETS, DefaultEnvironment, Import

Import("env")
root = os.path.dirname(os.path.realpath(sys._getframe().f_code.co_filename))
if root not in sys.path:
    sys.path.insert(0, root)
try:
    Import("projenv")  # there once PlatformIO has begun to look for libraries
except Exception:
    projenv = DefaultEnvironment()

from minun_pio.integrations.platformio import extend  # noqa: E402

verbose = bool(int(ARGUMENTS.get("PIOVERBOSE", 0)))
extend(env, DefaultEnvironment(), projenv, root, list(COMMAND_LINE_TARGETS), verbose)  # noqa: F821

# SPDX-License-Identifier: Apache-2.0
"""Puts what C++ builds need beside the compiler: minun_pio/library/ of an installed package is what the root
is in a checkout. Everything else is in pyproject.toml."""

from __future__ import annotations

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

LIBRARY = ("CMakeLists.txt", "cmake", "extra_script.py", "include/minun", "library.json", "src")


class WithLibrary(build_py):
    def run(self) -> None:
        package = os.path.join(self.build_lib, "minun_pio")
        if not self.editable_mode:
            shutil.rmtree(package, ignore_errors=True)  # what an earlier version left
        super().run()
        if self.editable_mode:
            return
        for name in LIBRARY:
            target = os.path.join(package, "library", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(name):
                shutil.copytree(name, target)
            else:
                shutil.copy2(name, target)


setup(cmdclass={"build_py": WithLibrary})

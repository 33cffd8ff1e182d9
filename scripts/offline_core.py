# SPDX-License-Identifier: Apache-2.0
"""Gives PlatformIO its build engine from pip's scons, so that no package has to be fetched afterwards.

PlatformIO wants a package `tool-scons` in its core directory; three small files over pip's scons serve. The
versions follow from the PlatformIO that is installed. Run by `make setup` with PLATFORMIO_CORE_DIR set.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from platformio.dependencies import get_core_dependencies
from platformio.package.version import get_original_version
from platformio.project.config import ProjectConfig

SHIM = """\
import sys

from SCons.Script import main

sys.exit(main())
"""


def main() -> int:
    version = get_core_dependencies()["tool-scons"].lstrip("~^=")  # 4.41101.0
    original = get_original_version(version)  # 4.11.1
    try:
        installed = importlib.metadata.version("scons")
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    if installed != original:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        if subprocess.call([*pip, f"scons=={original}"]) != 0:
            print(f"offline_core: pip cannot install scons=={original}", file=sys.stderr)
            return 1
    folder = Path(ProjectConfig.get_instance().get("platformio", "packages_dir")) / "tool-scons"
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    files = {
        "package.json": json.dumps(
            {"name": "tool-scons", "version": version, "description": "SCons from PyPI"}, indent=1
        ),
        ".piopm": json.dumps({"type": "tool", "name": "tool-scons", "version": version, "spec": spec}),
        "scons.py": SHIM,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf8")
    print(f"PlatformIO builds with scons {original} in {os.path.relpath(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

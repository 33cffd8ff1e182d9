# SPDX-License-Identifier: Apache-2.0
"""Where the C++ side lies: device headers and sources, the CMake function, PlatformIO's script."""

from __future__ import annotations

from pathlib import Path

from minun_pio.errors import MinunError


def library_dir() -> Path:
    """What PlatformIO takes as the library: a checkout's root, or the installed package's own copy."""
    package = Path(__file__).resolve().parent
    for folder in (package / "library", package.parent):
        if (folder / "library.json").is_file() and (folder / "include" / "minun").is_dir():
            return folder
    raise MinunError(
        "install.incomplete",
        "the C++ headers are not part of this installation; install minun_pio from its repository",
        str(package),
    )

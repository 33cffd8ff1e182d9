# SPDX-License-Identifier: Apache-2.0
"""`python -m minun_pio` is `minun`."""

import sys

try:
    from minun_pio.cli import main
except ImportError as error:
    if error.name is None or error.name.startswith("minun_pio"):
        raise
    python = sys.executable
    sys.exit(
        f"minun: error: {python} has no package '{error.name}'; run: {python} -m pip install {error.name}"
    )

main()

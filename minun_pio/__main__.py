# SPDX-License-Identifier: Apache-2.0
"""`python -m minun_pio` is `minun`. In the syntax of Python 3.6, so that an older one says what is wrong."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036
    found = f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}"
    sys.exit(f"minun: error: {found}, minun_pio needs 3.10 or newer [python.version]")

try:
    from minun_pio.cli import main
except ImportError as error:
    if error.name is None or error.name.startswith("minun_pio"):
        raise
    from minun_pio.errors import pip_install

    sys.exit(f"minun: error: {sys.executable} has no package '{error.name}'; run: {pip_install(error.name)}")

main()

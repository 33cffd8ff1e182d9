# SPDX-License-Identifier: Apache-2.0
"""`python -m minun_pio` is `minun`."""

from minun_pio.cli import main

main()

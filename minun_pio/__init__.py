# SPDX-License-Identifier: Apache-2.0
"""Machine learning on microcontrollers: formats searched, memory proven, host and board equal to the bit."""

__version__ = "0.1.0"

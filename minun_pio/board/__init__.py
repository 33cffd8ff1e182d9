# SPDX-License-Identifier: Apache-2.0
"""Boards: their facts, the serial protocol, the virtual boards, and measurements on bare cores."""

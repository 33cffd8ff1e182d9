# SPDX-License-Identifier: Apache-2.0
"""The layers of a layer list, by name."""

from __future__ import annotations

from collections.abc import Mapping

from minun_pio.importers.layer_kinds import attention, classic, plain, recurrent, spatial
from minun_pio.importers.layers import Kind

KINDS: Mapping[str, Kind] = {
    **plain.KINDS,
    **spatial.KINDS,
    **classic.KINDS,
    **recurrent.KINDS,
    **attention.KINDS,
}

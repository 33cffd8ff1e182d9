# SPDX-License-Identifier: Apache-2.0
"""PlatformIO's view of the virtual boards; every one of them, the host too, is uploaded to and has a port."""

from platformio.public import PlatformBase


class MinunvirtualPlatform(PlatformBase):
    def is_embedded(self):
        return True

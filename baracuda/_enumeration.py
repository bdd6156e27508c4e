# SPDX-License-Identifier: Apache-2.0
"""The base of the enumerations."""

from __future__ import annotations

import enum


class IntEnum(enum.IntEnum):
    """Base of the enumerations; members have a one-line `description`."""

    @property
    def description(self) -> str:
        from baracuda._library.members import description

        return description(self)

# SPDX-License-Identifier: Apache-2.0
"""Enumerations of pooling."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class PoolMode(IntEnum):
    """Reduction of a window, in the plans with a rank in their name."""

    MAX = 0
    AVG_INCLUDE_PAD = 1
    AVG_EXCLUDE_PAD = 2


class PoolKind(IntEnum):
    """Backward plans carry the forward value."""

    MAX = 0
    AVG = 1
    LP = 2
    ADAPTIVE_AVG = 3
    ADAPTIVE_MAX = 4
    FRACTIONAL_MAX = 5
    MAX_UNPOOL = 6

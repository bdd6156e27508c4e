# SPDX-License-Identifier: Apache-2.0
"""Results of the array API's functions of sets, with the names that the standard gives them."""

from __future__ import annotations

from typing import Any, NamedTuple


class UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any

# SPDX-License-Identifier: Apache-2.0
"""A function call with the interface of a plan, so that `Call` can build its C arguments."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from baracuda._functions.shape_rules.call_meta import CallMeta
from baracuda._library.loader import Library


class Problem:
    """The members of a plan that `Call` reads."""

    names: Mapping[str, str] = {}
    numbers: Mapping[str, Any] = {}
    by_width = False

    def __init__(self, library: Library, meta: CallMeta, numbers: Mapping[str, Any]) -> None:
        self.library, self.parameters, self._meta = library, numbers, meta
        self.descriptor = types.SimpleNamespace(**meta.values)

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides as C takes them: those of weights are broadcast to the shape."""
        axis = self._meta.channel_axis
        if axis is None or name not in ("weight", "dweight"):
            return strides
        return tuple([strides[0] if d == axis else 0 for d in range(self.descriptor.rank)])

    def offset(self, strides: tuple[int, ...]) -> int:
        axis = self._meta.offset_axis
        if axis is None:
            return 0
        halves = getattr(self.descriptor, "output_shape", None)  # gated units
        return strides[axis] if halves is None else int(halves[axis] * strides[axis])

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        found = self._meta.values.get(name)  # a pitch that is known already
        return strides[self._meta.stride_axes[name]] if found is None else int(found)

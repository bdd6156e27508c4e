"""A call of a function as the problem of a plan, of which `Call` makes the arguments of C."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from baracuda._functions.layout import Layout
from baracuda._lib import Library


class Problem:
    """What `Call` asks a plan for."""

    names: Mapping[str, str] = {}
    numbers: Mapping[str, Any] = {}
    by_width = False

    def __init__(self, library: Library, layout: Layout, numbers: Mapping[str, Any]) -> None:
        self.library, self.parameters, self._layout = library, numbers, layout
        self.descriptor = types.SimpleNamespace(**layout.values)

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Weights, of which C wants the strides as broadcast to the shape."""
        axis = self._layout.channel_axis
        if axis is None or name not in ("weight", "dweight"):
            return strides
        return tuple([strides[0] if d == axis else 0 for d in range(self.descriptor.rank)])

    def offset(self, strides: tuple[int, ...]) -> int:
        axis = self._layout.offset_axis
        if axis is None:
            return 0
        halves = getattr(self.descriptor, "output_shape", None)  # of gated operands
        return strides[axis] if halves is None else int(halves[axis] * strides[axis])

    def step(self, name: str, strides: tuple[int, ...]) -> int:
        found = self._layout.values.get(name)  # a pitch
        return strides[self._layout.steps[name]] if found is None else int(found)

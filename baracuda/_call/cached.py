# SPDX-License-Identifier: Apache-2.0
"""Cached calls of a plan, for operands that differ from checked ones only in their addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._ffi import ffi
from baracuda._library.op_table import Row
from baracuda.operands import Args
from baracuda.tensor import TensorRef

_VOID = ffi.typeof("void *")


class CachedCall:
    """A checked C call without the addresses of its operands."""

    __slots__ = ("_call", "_operands", "function", "symbol")

    def __init__(
        self, function: Any, symbol: str, row: Row, names: Mapping[str, str], args: Args, call: Sequence[Any]
    ) -> None:
        """`call` are the C arguments of the checked `args`, up to the stream. `names` maps C's names to Args'."""
        self.function, self.symbol, self._call = function, symbol, list(call)
        # (name, position in the call, is_output, alignment, first byte, end) of each operand.
        self._operands: list[tuple[str, int, bool, int, int, int]] = []
        for position, param in enumerate(row.params):
            view: TensorRef | None = getattr(args, names[param.name]) if param.is_pointer else None
            if view is not None:
                start, stop = view.byte_range
                name, size = names[param.name], view.dtype.itemsize
                self._operands.append((name, position, param.is_output, size, start - view.ptr, stop - view.ptr))

    def arguments(self, args: Args) -> list[Any] | None:
        """C arguments up to the stream; None if the addresses need the full checks (alignment, overlap)."""
        call, cast = self._call.copy(), ffi.cast
        spans: list[tuple[bool, int, int]] = []
        for name, position, is_output, alignment, low, high in self._operands:
            view: TensorRef = getattr(args, name)
            address = view.ptr
            if not address or address % alignment:
                return None
            start, stop = address + low, address + high
            for other_is_output, other_start, other_stop in spans:
                if (is_output or other_is_output) and start < other_stop and other_start < stop:
                    return None
            spans.append((is_output, start, stop))
            call[position] = cast(_VOID, address)
        return call

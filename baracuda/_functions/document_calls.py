# SPDX-License-Identifier: Apache-2.0
"""Documents that are packed into the rows of a batch: their numbers and offsets from ids, on the device, by calls of
other functions, for arrays of any framework.

A document is a run of equal ids in a row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.errors import InvalidProblemError

if TYPE_CHECKING:
    from baracuda._functions.attention_calls import Arrays

# Functions that are called.
CALLED = ("cumsum", "eq", "logical_and", "ne", "pad_constant", "searchsorted")


def numbers_of(arrays: Arrays, ids: Any) -> Any:
    """The number of each element's document, counted over the whole batch from 1 on, as i32 of one axis."""
    shape = tuple(ids.shape)
    if not shape:
        raise InvalidProblemError("ids has shape (), must have an axis")
    rows = arrays.reshaped(ids, (math.prod(shape[:-1]), shape[-1]))
    begins = arrays.as_i32(arrays.call("ne", rows[:, 1:], rows[:, :-1]))
    if shape[-1]:  # the first of a row begins a document
        begins = arrays.call("pad_constant", begins, pad_low=[0, 1], pad_high=[0, 0], value=1)
    return arrays.call("cumsum", arrays.reshaped(begins, (math.prod(shape),)), axis=0)


def offsets_of(arrays: Arrays, ids: Any, max_documents: int | None) -> Any:
    """Offsets at which documents begin and the last one ends: i32 (max_documents + 1,)."""
    total = math.prod(tuple(ids.shape))
    most = total if max_documents is None else as_integer("max_documents", max_documents, 1, INT32_MAX)
    numbers = numbers_of(arrays, ids)
    count = min(most + 1, total)  # document k + 1 begins where numbers are not less
    first = numbers[:count]
    targets = arrays.call("cumsum", arrays.as_i32(arrays.call("eq", first, first)), axis=0)
    found = arrays.as_i32(arrays.call("searchsorted", numbers, targets))
    if count > most:
        return found
    return arrays.call("pad_constant", found, pad_low=[0], pad_high=[most + 1 - count], value=total)


def is_same(arrays: Arrays, ids: Any) -> Any:
    """A mask of the pairs of positions in one document: (..., 1, length, length)."""
    *batch, length = ids.shape
    numbers = numbers_of(arrays, ids)
    queries, keys = (arrays.reshaped(numbers, (*batch, 1, *pair)) for pair in ((length, 1), (1, length)))
    return arrays.call("eq", queries, keys)


class PackedRows:
    """Operands of attention as rows of all documents, tokens before heads, and results as they were."""

    def __init__(self, arrays: Arrays, q: Any, tokens_first: bool) -> None:
        self.arrays, self.tokens_first = arrays, tokens_first
        *batch, first, second, _ = q.shape
        self.batch = tuple(batch)
        self.length, self.heads = (first, second) if tokens_first else (second, first)
        self.total = math.prod(self.batch) * self.length

    def _swapped(self, x: Any) -> Any:
        """Tokens and heads exchanged, unless tokens are first everywhere."""
        order = (1, 0, 2) if len(x.shape) == 3 else (0, 2, 1, 3)
        return x if self.tokens_first else self.arrays.permuted(x, order)

    def packed(self, x: Any) -> Any:
        x = self._swapped(x)
        return self.arrays.reshaped(x, (self.total, *x.shape[-2:]))

    def unpacked(self, x: Any) -> Any:
        return self._swapped(self.arrays.reshaped(x, (*self.batch, self.length, *x.shape[1:])))

    def packed_sums(self, lse: Any) -> Any:
        """lse (heads, rows) of (batch, heads, length)."""
        if self.batch:
            lse = self.arrays.permuted(lse, (1, 0, 2))
        return self.arrays.reshaped(lse, (self.heads, self.total))

    def unpacked_sums(self, lse: Any) -> Any:
        lse = self.arrays.reshaped(lse, (self.heads, *self.batch, self.length))
        return self.arrays.permuted(lse, (1, 0, 2)) if self.batch else lse

# SPDX-License-Identifier: Apache-2.0
"""Ring attention (Liu, Zaharia and Abbeel 2023) over texts whose tokens are divided among the ranks.

Queries stay, keys and values go round the ring; each step is an attention of the local queries over the keys that are
here, and the results are merged by their log-sum-exp, in f32 and rounded once at the end. In the backward keys, values
and their gradients, in f32, go round once more; the gradients arrive where they belong after P steps.

Layouts of the P ranks:

    contiguous  rank r has the tokens [r L / P, (r + 1) L / P)
    zigzag      the text in 2 P chunks, of which rank r has the chunks r and 2 P - 1 - r, so that causal attention costs
                each rank the same: a step is the whole of the local causal attention, or half of a full one

Of packed texts (cu_seqlens) each is divided so. RingAttentionPlan runs the reference's three symbols instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from baracuda import functions, memory
from baracuda._arrays.frameworks import library_for
from baracuda._arrays.shaping import empty_like, reshaped
from baracuda.composites import index_copy
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.streams import Side
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.tensor import tensor

LAYOUTS = ("contiguous", "zigzag")


def zigzag_positions(length: int, rank: int, size: int) -> np.ndarray[Any, Any]:
    """The positions in a text of `length` tokens of those that rank has in the zigzag layout."""
    if length % (2 * size):
        raise InvalidProblemError(f"length is {length}, must be a multiple of twice the number of ranks, {2 * size}")
    chunk = length // (2 * size)
    return np.concatenate([np.arange(chunk) + chunk * rank, np.arange(chunk) + chunk * (2 * size - 1 - rank)])


def positions_of(layout: str, length: int, rank: int, size: int) -> np.ndarray[Any, Any]:
    """The positions that rank has in a layout."""
    check_layout(layout)
    if layout == "zigzag":
        return zigzag_positions(length, rank, size)
    if length % size:
        raise InvalidProblemError(f"length is {length}, which {size} ranks do not divide")
    return np.arange(length // size) + length // size * rank


def ring_attention(
    comm: Communicator, q: Any, k: Any, v: Any, *, is_causal: bool = False, scale: float | None = None,
    layout: str = "contiguous", cu_seqlens: Sequence[int] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Attention over all ranks' tokens, and the f32 log-sum-exp of each query.

    q is (batch, tokens, heads, d) and k, v (batch, tokens, kv_heads, d): this rank's tokens, contiguous. With
    cu_seqlens, the boundaries of this rank's packed texts as numbers, which are the same on all ranks, they are
    (tokens, heads, d). The result is (y, lse), lse being (batch, heads, tokens), or (heads, tokens) of packed texts.
    """
    run = _Ring(comm, layout, is_causal, scale, cu_seqlens, q, k)
    state: _Merged | None = None
    for step, (keys, values) in enumerate(run.travel(k, v)):
        part = run.part(step)
        if part is None:
            continue
        own, theirs, _ = part
        y, lse = run.attend(run.rows(q, own), run.rows(keys, theirs), run.rows(values, theirs), part)
        if state is None:
            state = _Merged(run, q)
        state.add(y, lse, own)
    assert state is not None
    return state.result()


def ring_attention_backward(
    comm: Communicator, dy: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, *, is_causal: bool = False,
    scale: float | None = None, layout: str = "contiguous", cu_seqlens: Sequence[int] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Gradients of this rank's q, k and v; y and lse are results of ring_attention. They are summed in f32 and rounded
    once.
    """
    run = _Ring(comm, layout, is_causal, scale, cu_seqlens, q, k)
    dq = run.zeros(q)
    sums = [run.zeros(k), run.zeros(v)]
    for step, (keys, values) in enumerate(run.travel(k, v)):
        part = run.part(step)
        if part is not None:
            own, theirs, _ = part
            found = run.attend_backward(
                run.rows(dy, own), run.rows(q, own), run.rows(keys, theirs), run.rows(values, theirs),
                run.rows(y, own), run.rows_of_lse(lse, own), part,
            )  # fmt: skip
            run.add(found[0], dq, own)
            for total, each in zip(sums, found[1:]):
                run.add(each, total, theirs)
        sums = run.pass_on(sums)
    dtype = tensor(q, "q").dtype
    return tuple(functions.cast(x, dtype) for x in (dq, *sums))


WHOLE, FIRST, SECOND = "whole", "first", "second"


class _Part(NamedTuple):
    """Rows of queries and of keys: all of them, or the first or second half of each text. On the diagonal they are the
    same tokens.
    """

    own: str
    theirs: str
    is_diagonal: bool = False


@dataclasses.dataclass
class _Ring:
    """State common to the steps of forward and backward."""

    comm: Communicator
    layout: str
    is_causal: bool
    scale: float | None
    cu_seqlens: Sequence[int] | None
    q: Any
    k: Any

    def __post_init__(self) -> None:
        check_layout(self.layout)
        rank = 3 if self.cu_seqlens is not None else 4
        if len(self.q.shape) != rank or len(self.k.shape) != rank:
            raise InvalidProblemError(
                f"q and k have shapes {tuple(self.q.shape)} and {tuple(self.k.shape)}, must have {rank} axes"
            )
        if self.layout == "zigzag" and any(length % 2 for length in self._lengths()):
            raise InvalidProblemError("zigzag: this rank's part of each text must have an even number of tokens")
        self._boundaries: dict[bool, Any] = {}
        self._indices: dict[str, Any] = {}

    def _lengths(self) -> list[int]:
        if self.cu_seqlens is None:
            return [int(self.q.shape[1])]
        return [b - a for a, b in zip(self.cu_seqlens, self.cu_seqlens[1:])]

    # --- the ring ---

    def travel(self, k: Any, v: Any) -> Any:
        """The keys and values of this rank, then those of rank - 1, and so on; each is received while its predecessor
        is used.
        """
        comm, size, rank = self.comm, self.comm.size, self.comm.rank
        here, side = (k, v), Side(self.comm)
        for step in range(size):
            following: Any = None
            if step + 1 < size:
                following = tuple(_like(x) for x in here)

                def exchange(stream: int | None, here: Any = here, following: Any = following) -> None:
                    comm.transfer(
                        [(x, (rank + 1) % size) for x in here],
                        [(x, (rank - 1) % size) for x in following],
                        stream=stream,
                    )

                side.run(exchange, k)
            yield here
            if following is not None:
                side.finish(k)
                here = following

    def pass_on(self, arrays: list[Any]) -> list[Any]:
        """Gradients of keys and values move with these."""
        size, rank = self.comm.size, self.comm.rank
        if size == 1:
            return arrays
        received = [_like(x) for x in arrays]
        self.comm.transfer([(x, (rank + 1) % size) for x in arrays], [(x, (rank - 1) % size) for x in received])
        return received

    def part(self, step: int) -> _Part | None:
        """The rows of queries and of keys that see each other in a step; None if there are none."""
        rank, size = self.comm.rank, self.comm.size
        source = (rank - step) % size
        if not self.is_causal or source == rank:
            return _Part(WHOLE, WHOLE, source == rank)
        if self.layout == "contiguous":
            return _Part(WHOLE, WHOLE) if source < rank else None
        return _Part(WHOLE, FIRST) if source < rank else _Part(SECOND, WHOLE)

    # --- rows ---

    def rows(self, x: Any, part: str) -> Any:
        """Contiguous rows of a part of x, along the axis of tokens."""
        if part is WHOLE:
            return x
        if self.cu_seqlens is not None:
            return functions.index_select(x, self._index(part), axis=0)
        return functions.cast(_half(x, part), tensor(x, "x").dtype)

    def rows_of_lse(self, lse: Any, part: str) -> Any:
        if part is WHOLE:
            return lse
        if self.cu_seqlens is not None:
            return functions.index_select(lse, self._index(part), axis=1)
        half = lse.shape[2] // 2
        return functions.cast(lse[:, :, :half] if part == FIRST else lse[:, :, half:], tensor(lse, "lse").dtype)

    def add(self, x: Any, total: Any, part: str) -> None:
        """Add rows of a part to f32 totals."""
        wide = functions.cast(x, tensor(total, "total").dtype)
        if part is WHOLE:
            functions.add(total, wide, out=total)
        elif self.cu_seqlens is not None:
            functions.index_add(self._index(part), wide, total.shape[0], axis=0, out=total)
        else:
            view = _half(total, part)
            functions.add(view, wide, out=view)

    def put(self, x: Any, whole: Any, part: str) -> None:
        """Overwrite rows of a part."""
        if self.cu_seqlens is not None:
            index_copy(whole, self._index(part), x, axis=0, out=whole)
        else:
            functions.cast(x, tensor(whole, "whole").dtype, out=_half(whole, part))

    def _index(self, part: str) -> Any:
        """Row numbers of the halves of all packed texts."""
        if part not in self._indices:
            rows: list[int] = []
            for start, stop in zip(self.cu_seqlens or (), (self.cu_seqlens or ())[1:]):
                half = (start + stop) // 2
                rows += range(start, half) if part == FIRST else range(half, stop)
            self._indices[part] = uploaded(np.array(rows, np.int64), self.q)
        return self._indices[part]

    def zeros(self, like: Any) -> Any:
        total = empty_like(like, tuple(like.shape), _wide(like))
        return functions.fill(total, 0.0, out=total)

    # --- attention ---

    def attend(self, q: Any, k: Any, v: Any, part: _Part) -> tuple[Any, Any]:
        causal = self.is_causal and part.is_diagonal
        if self.cu_seqlens is None:
            return functions.fused_attention_forward(q, k, v, tokens_first=True, scale=self.scale, is_causal=causal)
        return functions.fused_attention_varlen_forward(q, k, v, *self._texts(part), scale=self.scale, is_causal=causal)

    def attend_backward(self, dy: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, part: _Part) -> tuple[Any, Any, Any]:
        causal = self.is_causal and part.is_diagonal
        found: Any
        if self.cu_seqlens is None:
            found = functions.fused_attention_backward(
                dy, q, k, v, y, lse, tokens_first=True, scale=self.scale, is_causal=causal,
                needs=(True, True, True, False, False),
            )  # fmt: skip
        else:
            bounds_q, bounds_k, longest_q, longest_k = self._texts(part)
            found = functions.fused_attention_varlen_backward(
                dy, q, k, v, bounds_q, bounds_k, y, lse, longest_q, longest_k, scale=self.scale, is_causal=causal,
                needs=(True, True, True, False),
            )  # fmt: skip
        return found[0], found[1], found[2]

    def _texts(self, part: _Part) -> tuple[Any, Any, int, int]:
        """cu_seqlens of queries and keys, and the longest of them."""
        found = []
        for rows in (part.own, part.theirs):
            is_half = rows is not WHOLE
            if is_half not in self._boundaries:
                bounds = np.array(self.cu_seqlens, np.int64) // (2 if is_half else 1)
                self._boundaries[is_half] = (
                    uploaded(bounds.astype(np.int32), self.q), int(np.diff(bounds).max(initial=0)),
                )  # fmt: skip
            found.append(self._boundaries[is_half])
        return found[0][0], found[1][0], found[0][1], found[1][1]


class _Merged:
    """The result so far, in f32: y, and lse with the layout of y's rows."""

    def __init__(self, run: _Ring, q: Any) -> None:
        self.run, self.dtype = run, tensor(q, "q").dtype
        self.y: Any = None
        self.lse: Any = None

    def add(self, y: Any, lse: Any, own: str) -> None:
        wide, numbers = functions.cast(y, _wide(y)), self._as_rows(lse)
        if self.y is None:
            self.y, self.lse = wide, numbers
            return
        if own is WHOLE:
            self.y, self.lse = self._merged(self.y, self.lse, wide, numbers)
            return
        run = self.run
        half_y, half_lse = self._merged(run.rows(self.y, own), run.rows(self.lse, own), wide, numbers)
        run.put(half_y, self.y, own)
        run.put(half_lse, self.lse, own)

    def result(self) -> tuple[Any, Any]:
        order = (0, 2, 1) if len(self.lse.shape) == 3 else (1, 0)
        return functions.cast(self.y, self.dtype), functions.permute(self.lse, order)

    def _as_rows(self, lse: Any) -> Any:
        """(batch, heads, tokens) as (batch, tokens, heads), f32."""
        return functions.permute(lse, (0, 2, 1) if len(lse.shape) == 3 else (1, 0))

    def _merged(self, a: Any, lse_a: Any, b: Any, lse_b: Any) -> tuple[Any, Any]:
        rows, d = _count(lse_a), a.shape[-1]
        values, sums = empty_like(a, (2, rows, d), _wide(a)), empty_like(lse_a, (2, rows), tensor(lse_a, "lse").dtype)
        for k, (y, lse) in enumerate(((a, lse_a), (b, lse_b))):
            functions.cast(reshaped(y, (rows, d)), _wide(a), out=values[k])
            functions.cast(reshaped(lse, (rows,)), tensor(lse_a, "lse").dtype, out=sums[k])
        y, lse = functions.merge_attention_states(values, sums)
        return reshaped(y, tuple(a.shape)), reshaped(lse, tuple(lse_a.shape))


def check_layout(layout: str) -> None:
    if layout not in LAYOUTS:
        raise InvalidProblemError(f"layout is {layout!r}, must be one of {', '.join(LAYOUTS)}")


def uploaded(array: np.ndarray[Any, Any], like: Any) -> Any:
    """A host array on the device of another one: itself on the CPU."""
    view = tensor(like, "like")
    return memory.upload(array, library=library_for(view.device)) if view.device == "cuda" else array


def _half(x: Any, part: str) -> Any:
    half = x.shape[1] // 2
    return x[:, :half] if part == FIRST else x[:, half:]


def _wide(x: Any) -> ElementKind:
    return ElementKind.F64 if tensor(x, "x").dtype is ElementKind.F64 else ElementKind.F32


def _like(x: Any) -> Any:
    return empty_like(x, tuple(x.shape), tensor(x, "x").dtype)


def _count(x: Any) -> int:
    return int(np.prod([int(n) for n in x.shape]))

# SPDX-License-Identifier: Apache-2.0
"""Ring attention (Liu, Zaharia and Abbeel 2023): queries stay on their device, chunks of keys go round a ring.

RingAttentionPlan runs the whole loop. The plans of its parts are for those who overlap or schedule the transfers
themselves: the state of a row is m, the largest score, l, the sum of exp(score - m), and o, the sum of
exp(score - m) v, in f32. Chunks may come in any order, each once.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Protocol

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, WorkspaceTooSmallError
from baracuda.guarantee import PlanPreference
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.plan import Plan
from baracuda.tensor import TensorRef, tensor


@dataclasses.dataclass(frozen=True)
class RingAttentionInitDescriptor(Descriptor):
    """Lengths in elements; element is f32."""

    o_len: int = descriptor.extent()
    ml_len: int = descriptor.extent()


class RingAttentionInitPlan(Plan):
    __slots__ = ()
    op = "ring_attention_init"
    category = OpCategory.ATTENTION
    kind = AttentionKind.RING_ATTENTION


@dataclasses.dataclass(frozen=True)
class RingAttentionStepDescriptor(Descriptor):
    """A chunk of k_chunk keys from k_global_base on, for queries from q_global_base on. With is_causal key j is visible
    to query i if j <= i, counted over all chunks.
    """

    batch: int = descriptor.extent()
    heads: int = descriptor.extent()
    q_local: int = descriptor.extent()
    k_chunk: int = descriptor.extent()
    d: int = descriptor.extent()
    scale: float = descriptor.real()
    is_causal: bool = descriptor.flag()
    q_global_base: int = descriptor.extent(default=0)
    k_global_base: int = descriptor.extent(default=0)


class RingAttentionStepPlan(Plan):
    __slots__ = ()
    op = "ring_attention_{T}_step"
    category = OpCategory.ATTENTION
    kind = AttentionKind.RING_ATTENTION


@dataclasses.dataclass(frozen=True)
class RingAttentionFinalizeDescriptor(Descriptor):
    batch: int = descriptor.extent()
    heads: int = descriptor.extent()
    q_local: int = descriptor.extent()
    d: int = descriptor.extent()


class RingAttentionFinalizePlan(Plan):
    """lse has the dtype of y, and may be None."""

    __slots__ = ()
    op = "ring_attention_{T}_finalize"
    category = OpCategory.ATTENTION
    kind = AttentionKind.RING_ATTENTION


class Communicator(Protocol):
    """Exchanges buffers with the neighbours in a ring of `size` ranks, on the stream of the plan."""

    rank: int
    size: int

    def send_and_receive(self, send: TensorRef, to: int, receive: TensorRef, source: int, stream: object) -> None: ...


@dataclasses.dataclass(frozen=True)
class RingAttentionDescriptor(Descriptor):
    """Rank r of world_size has queries [r q_local, (r + 1) q_local) and keys [r k_chunk, (r + 1) k_chunk)."""

    batch: int = descriptor.extent()
    heads: int = descriptor.extent()
    q_local: int = descriptor.extent()
    k_chunk: int = descriptor.extent()
    d: int = descriptor.extent()
    scale: float = descriptor.real()
    is_causal: bool = descriptor.flag()


@dataclasses.dataclass(frozen=True)
class RingAttentionArgs:
    """q, y: (batch, heads, q_local, d); kv_scratch_a and kv_scratch_b: (2, batch, heads, k_chunk, d), the first with
    this rank's keys, then its values, both overwritten; lse: of y's dtype, (batch, heads, q_local), or None. With one
    rank kv_scratch_b may be None.
    """

    q: Any
    kv_scratch_a: Any
    y: Any
    kv_scratch_b: Any = None
    lse: Any = None


class RingAttentionPlan:
    """The loop over all ranks: init, a step for each chunk with a transfer after each but the last, finalize."""

    __slots__ = ("_finalize", "_init", "_preference", "_steps", "descriptor", "library")
    descriptor_type: ClassVar = RingAttentionDescriptor
    args_type: ClassVar = RingAttentionArgs
    category: ClassVar = OpCategory.ATTENTION
    kind: ClassVar = AttentionKind.RING_ATTENTION

    def __init__(self, stream: object, described: RingAttentionDescriptor, preference: PlanPreference | None,
                 **options: Any) -> None:  # fmt: skip
        self.descriptor, self._preference = described, preference
        shape, rows = self._shape, self._rows
        self._init = RingAttentionInitPlan.select(
            stream, RingAttentionInitDescriptor(math.prod(shape), rows, element=ElementKind.F32), preference, **options
        )
        self.library = self._init.library
        self._steps: dict[tuple[int, int], RingAttentionStepPlan] = {}
        self._finalize = RingAttentionFinalizePlan.select(
            stream, RingAttentionFinalizeDescriptor(*shape, element=described.element), preference, library=self.library
        )
        self._step(0, 0)

    @classmethod
    def select(cls, stream: object, described: RingAttentionDescriptor, preference: PlanPreference | None = None,
               **options: Any) -> RingAttentionPlan:  # fmt: skip
        """A plan for the descriptor; library and backend are those of Plan.select."""
        return cls(stream, described.validated(), preference, **options)

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        return self.descriptor.batch, self.descriptor.heads, self.descriptor.q_local, self.descriptor.d

    @property
    def _rows(self) -> int:
        return math.prod(self._shape[:3])

    @property
    def workspace_size(self) -> int:
        """Bytes of the state o, m, l."""
        return 4 * self._rows * (self.descriptor.d + 2)

    def run(
        self, stream: object, workspace: object, communicator: Communicator | None, args: RingAttentionArgs
    ) -> None:
        """Enqueues the loop. Without a communicator there is one rank."""
        rank, size = (0, 1) if communicator is None else (communicator.rank, communicator.size)
        if not 0 <= rank < size:
            raise InvalidProblemError(f"communicator.rank is {rank}, must be in [0, {size})")
        states = self._carve(workspace)
        q, y = tensor(args.q, "q"), tensor(args.y, "y")
        buffers = [None if b is None else tensor(b, name) for name, b in
                   (("kv_scratch_a", args.kv_scratch_a), ("kv_scratch_b", args.kv_scratch_b))]  # fmt: skip
        if buffers[0] is None or (size > 1 and buffers[1] is None):
            raise InvalidProblemError(f"kv_scratch_{'a' if buffers[0] is None else 'b'} is None, but is needed")
        flat = [x.reshape(-1) for x in states]
        self._init.run(stream, None, self._init.args_type(*flat))
        for s in range(size):
            keys, values = self._halves(buffers[s % 2])
            plan = self._step(rank, (rank - s) % size)
            plan.run(stream, None, plan.args_type(q, keys, values, *states))
            sent, received = buffers[s % 2], buffers[1 - s % 2]
            if s + 1 < size and communicator is not None and sent is not None and received is not None:
                communicator.send_and_receive(sent, (rank + 1) % size, received, (rank - 1) % size, stream)
        lse = None if args.lse is None else tensor(args.lse, "lse")
        self._finalize.run(stream, None, self._finalize.args_type(*states, y, lse))

    def _step(self, rank: int, source: int) -> RingAttentionStepPlan:
        if (rank, source) not in self._steps:
            d = self.descriptor
            described = RingAttentionStepDescriptor(
                d.batch, d.heads, d.q_local, d.k_chunk, d.d, d.scale, d.is_causal, rank * d.q_local, source * d.k_chunk,
                element=d.element,
            )  # fmt: skip
            self._steps[rank, source] = RingAttentionStepPlan.select(
                None, described, self._preference, library=self.library
            )
        return self._steps[rank, source]

    def _carve(self, workspace: object) -> list[TensorRef]:
        """o, m and l, one behind the other."""
        view = None if workspace is None else tensor(workspace, "workspace")
        got = 0 if view is None else view.nbytes
        if view is None or got < self.workspace_size:
            raise WorkspaceTooSmallError(
                f"workspace has {got} bytes, needs {self.workspace_size}", needed=self.workspace_size, got=got
            )
        if view.ptr % 4:
            raise InvalidProblemError(f"workspace is at {view.ptr:#x}, must be aligned to 4 bytes")
        starts = (0, math.prod(self._shape), math.prod(self._shape) + self._rows)
        shapes = (self._shape, self._shape[:3], self._shape[:3])
        return [
            TensorRef(view.ptr + 4 * start, shape, ElementKind.F32, device=view.device)
            for start, shape in zip(starts, shapes)
        ]

    def _halves(self, buffer: TensorRef | None) -> tuple[TensorRef, TensorRef]:
        d = self.descriptor
        shape = (d.batch, d.heads, d.k_chunk, d.d)
        if buffer is None or buffer.shape != (2, *shape) or not buffer.is_dense:
            have = None if buffer is None else buffer.shape
            raise InvalidProblemError(
                f"a buffer of keys and values has shape {have}, expected {(2, *shape)}, contiguous"
            )
        return buffer[0], buffer[1]

# SPDX-License-Identifier: Apache-2.0
"""Plans of scaled dot-product attention: with probabilities (Sdpa), without (FlashSdpa), of sequences in one tensor
(FlashSdpaVarlen), of chosen blocks (SdpaBlockSparse), and gradients.

q is (batch_size, num_heads, query_len, d_k), k and v have key_len rows of d_k and d_v. Causal masks of Sdpa, FlashSdpa
and SdpaBlockSparse show key j to query i where j <= i; in Fa2Sdpa, with windows, a cap and ALiBi, and FlashSdpaVarlen
the last query sees the last key. A query that sees no key gives 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from baracuda import descriptor
from baracuda._call.c_call import Form
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.operands import Views
from baracuda.plan import Plan

W = TypeVar("W", bound="_WindowDescriptor")


def _finite(name: str, value: object) -> float:
    number = as_real(name, value)
    if not math.isfinite(number):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite")
    return number


def _cap(name: str, value: object) -> float:
    number = _finite(name, value)
    if number < 0:
        raise InvalidProblemError(f"{name} is {value!r}, must be >= 0")
    return number


def _window(name: str, value: object) -> int | None:
    return None if value is None else as_integer(name, value, 0, INT32_MAX)


def _scale() -> Any:
    return descriptor.checked(_finite)


@dataclasses.dataclass(frozen=True)
class _DenseDescriptor(Descriptor):
    """Extents of all operands, and the factor of q.k."""

    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    query_len: int = descriptor.extent()
    key_len: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    scale: float = _scale()


_EXTENTS = {"batch": "batch_size", "heads": "num_heads", "q_len": "query_len", "k_len": "key_len"}
_LOWER = {"dQ": "dq", "dK": "dk", "dV": "dv"}


class _DensePlan(Plan):
    __slots__ = ()
    category = OpCategory.ATTENTION
    kind = AttentionKind.SDPA
    names: ClassVar = _EXTENTS | _LOWER

    def layout(self, name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
        """C takes the strides of batch, heads and rows; the elements of a row are adjacent."""
        extents = next(operand.extents for operand in self.operands if operand.name == name)
        if strides[-1] != 1 and extents[-1] > 1:
            raise InvalidProblemError(f"{name} has strides {strides}, the last must be 1")
        return strides[:3]


@dataclasses.dataclass(frozen=True)
class SdpaDescriptor(_DenseDescriptor):
    is_causal: bool = descriptor.flag()
    has_mask: bool = descriptor.flag()

    @property
    def mask_rows(self) -> int:
        return self.query_len if self.has_mask else 0


class SdpaPlan(_DensePlan):
    """attn = softmax(scale q k^T + mask), y = attn v. mask is of the element type, and contiguous as attn is; q, k, v
    and y may have any strides of batch, heads and rows, 0 too."""

    __slots__ = ()
    op = "sdpa_{T}"

    @property
    def numbers(self) -> Mapping[str, Any]:
        return {"stride_mask": (0, 0, 0)}


class SdpaBackwardDescriptor(_DenseDescriptor):
    """The masks are in attn."""


class SdpaBackwardPlan(_DensePlan):
    """dscores_ws is left with the gradient of the mask. Where k or v has a head stride of 0 its gradient accumulates:
    clear it first."""

    __slots__ = ()
    op = "sdpa_backward_{T}"


@dataclasses.dataclass(frozen=True)
class FlashSdpaDescriptor(_DenseDescriptor):
    is_causal: bool = descriptor.flag()


class FlashSdpaPlan(_DensePlan):
    """y = softmax(scale q k^T + mask) v and lse, the logarithm of the sum of each row's exponentials, in the element
    type: -inf of a row that sees no key. mask is f32, (batch_size, num_heads, query_len, key_len). Windows, a cap and
    slopes are of Fa2SdpaPlan."""

    __slots__ = ()
    op = "flash_sdpa_{T}"
    others = ("sdpa_{T}_arbmask",)
    kind = AttentionKind.FLASH_ATTENTION

    def form_for(self, views: Views) -> Form:
        return self._forms[0 if views["mask"] is None else 1]


class FlashSdpaBackwardPlan(_DensePlan):
    """Gradients from y and lse; d_ws receives the sums of y dy."""

    __slots__ = ()
    descriptor_base = FlashSdpaDescriptor
    op = "flash_sdpa_backward_{T}"
    kind = AttentionKind.FLASH_ATTENTION


@dataclasses.dataclass(frozen=True, kw_only=True)
class _WindowDescriptor(Descriptor):
    """A window is a number of keys to one side of the query, None for all of them; a softcap of 0 is none."""

    is_causal: bool = descriptor.flag()
    window_size_left: int | None = descriptor.checked(_window, default=None)
    window_size_right: int | None = descriptor.checked(_window, default=None)
    softcap: float = descriptor.checked(_cap, default=0.0)

    def with_window_size_left(self: W, window: int | None) -> W:
        return dataclasses.replace(self, window_size_left=window)

    def with_window_size_right(self: W, window: int | None) -> W:
        return dataclasses.replace(self, window_size_right=window)

    def with_softcap(self: W, softcap: float) -> W:
        return dataclasses.replace(self, softcap=softcap)


class _WindowPlan(Plan):
    __slots__ = ()
    category = OpCategory.ATTENTION
    kind = AttentionKind.FLASH_ATTENTION
    names: ClassVar = {
        "batch": "batch_size", "softmax_scale": "scale", "out": "y", "softmax_lse": "lse", "o": "y", "dout": "dy",
        "alibi_slopes_ptr": "alibi_slopes",
    }  # fmt: skip

    @property
    def numbers(self) -> Mapping[str, Any]:
        of = self.descriptor
        windows = [-1 if each is None else each for each in (of.window_size_left, of.window_size_right)]
        return {
            "alibi_batch_stride": of.num_heads, "window_size_left": windows[0], "window_size_right": windows[1]
        }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Fa2SdpaDescriptor(_WindowDescriptor):
    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    num_heads_k: int = descriptor.extent()
    seq_q: int = descriptor.extent()
    seq_k: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    scale: float = _scale()


class Fa2SdpaPlan(_WindowPlan):
    """Attention with grouped heads, windows, a cap and ALiBi; the last query sees the last key. lse is f32, +inf of a
    row that sees no key; alibi_slopes f32, (batch_size, num_heads). Extents of 0 are refused."""

    __slots__ = ()
    op = "fa2_sdpa_{T}_v2"


class Fa2SdpaBackwardPlan(_WindowPlan):
    """dk and dv are sums over the query heads of a group."""

    __slots__ = ()
    descriptor_base = Fa2SdpaDescriptor
    op = "fa2_sdpa_backward_{T}"


@dataclasses.dataclass(frozen=True)
class FlashSdpaSm89Descriptor(_DenseDescriptor):
    is_causal: bool = descriptor.flag()


class FlashSdpaSm89Plan(_DensePlan):
    """FlashSdpaPlan on operands with any strides of batch, heads and rows, 0 too; it runs on every chip."""

    __slots__ = ()
    op = "flash_sdpa_sm89_{T}"
    kind = AttentionKind.FLASH_ATTENTION


@dataclasses.dataclass(frozen=True)
class SdpaBlockSparseDescriptor(_DenseDescriptor):
    block_size: int = descriptor.checked(lambda name, value: as_integer(name, value, 1, INT32_MAX), default=64)
    is_causal: bool = descriptor.flag()

    @property
    def query_blocks(self) -> int:
        return -(-self.query_len // self.block_size)

    @property
    def key_blocks(self) -> int:
        return -(-self.key_len // self.block_size)


class SdpaBlockSparsePlan(_DensePlan):
    """block_pattern is u8, (batch_size, num_heads, query blocks, key blocks): 0 hides a block of block_size queries and
    keys."""

    __slots__ = ()
    op = "sdpa_{T}_block_sparse"
    kind = AttentionKind.BLOCK_SPARSE_ATTENTION


@dataclasses.dataclass(frozen=True)
class FlashSdpaVarlenDescriptor(_WindowDescriptor):
    """Sequence b has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] of q, (total_q, num_heads, d_k), and of k and v those
    of cu_seqlens_k. d_v is d_k."""

    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    num_heads_k: int = descriptor.extent()
    max_seqlen_q: int = descriptor.extent()
    max_seqlen_k: int = descriptor.extent()
    total_q: int = descriptor.extent()
    total_k: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    scale: float = _scale()

    def validated(self) -> Any:
        valid = super().validated()
        if valid.d_k != valid.d_v:
            raise UnsupportedError(f"d_k is {valid.d_k} and d_v {valid.d_v}, must be equal")
        return valid

    @property
    def offsets(self) -> int:
        return self.batch_size + 1


class FlashSdpaVarlenPlan(_WindowPlan):
    """Fa2SdpaPlan of sequences in one tensor. lse is f32, (num_heads, total_q)."""

    __slots__ = ()
    op = "fa2_sdpa_varlen_{T}"
    names: ClassVar = _WindowPlan.names | {"head_dim": "d_k"}


class FlashSdpaVarlenBackwardPlan(_WindowPlan):
    """dk and dv are sums over the query heads of a group."""

    __slots__ = ()
    descriptor_base = FlashSdpaVarlenDescriptor
    op = "fa2_sdpa_varlen_backward_{T}"
    names: ClassVar = _WindowPlan.names | {"head_dim": "d_k"}

# SPDX-License-Identifier: Apache-2.0
"""Plans of scaled dot-product attention: with probabilities (Sdpa), without (FlashSdpa), of sequences in one tensor
(FlashSdpaVarlen), of chosen blocks (SdpaBlockSparse), and gradients.

q is (batch_size, num_heads, query_len, d_k), k and v have key_len rows of d_k and d_v. Causal masks of Sdpa, FlashSdpa
and SdpaBlockSparse show key j to query i where j <= i; with windows, a cap or slopes, and in FlashSdpaVarlen, the last
query sees the last key. A query that sees no key gives 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._calls import Form
from baracuda._scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.operands import Views
from baracuda.plan import Plan


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
    """attn = softmax(scale q k^T + mask), y = attn v. mask is of the element type, and contiguous as attn is; q, k, v and y
    may have any strides of batch, heads and rows, 0 too."""

    __slots__ = ()
    op = "sdpa_{T}"

    @property
    def numbers(self) -> Mapping[str, Any]:
        return {"stride_mask": (0, 0, 0)}


class SdpaBackwardDescriptor(_DenseDescriptor):
    """The masks are in attn."""


class SdpaBackwardPlan(_DensePlan):
    """dscores_ws is left with the gradient of the mask. Where k or v has a head stride of 0 its gradient is added to:
    clear it first."""

    __slots__ = ()
    op = "sdpa_backward_{T}"


@dataclasses.dataclass(frozen=True)
class FlashSdpaDescriptor(_DenseDescriptor):
    """A window is a number of keys, None for all of them; softcap 0 is none."""

    is_causal: bool = descriptor.flag()
    window_size_left: int | None = descriptor.checked(_window, default=None)
    window_size_right: int | None = descriptor.checked(_window, default=None)
    softcap: float = descriptor.checked(_cap, default=0.0)

    def with_window_size_left(self, window: int | None) -> FlashSdpaDescriptor:
        return dataclasses.replace(self, window_size_left=window)

    def with_window_size_right(self, window: int | None) -> FlashSdpaDescriptor:
        return dataclasses.replace(self, window_size_right=window)

    def with_softcap(self, softcap: float) -> FlashSdpaDescriptor:
        return dataclasses.replace(self, softcap=softcap)

    @property
    def has_features(self) -> bool:
        return self.window_size_left is not None or self.window_size_right is not None or self.softcap > 0


class _FlashPlan(_DensePlan):
    __slots__ = ()
    kind = AttentionKind.FLASH_ATTENTION

    @property
    def numbers(self) -> Mapping[str, Any]:
        of = self.descriptor
        windows = [-1 if each is None else each for each in (of.window_size_left, of.window_size_right)]
        return {
            "num_heads_k": of.num_heads, "head_dim": of.d_k, "alibi_batch_stride": of.num_heads,
            "window_size_left": windows[0], "window_size_right": windows[1],
        }  # fmt: skip

    def _form_named(self, start: str, views: Views, why: str) -> Form:
        form = next((form for form in self._forms if form.op.name.startswith(start)), None)
        if form is None:
            raise UnsupportedError(f"{why} of {self.descriptor.element} is not supported: of f16 and bf16 it is")
        if start == "fa2" and self.descriptor.d_k != self.descriptor.d_v:
            raise UnsupportedError(f"{why}: d_k is {self.descriptor.d_k} and d_v {self.descriptor.d_v}, must be equal")
        for name, view in views.items():
            if view is not None and form.parameter(name) and view.dtype not in form.kinds(name):
                expected = " or ".join(map(str, form.kinds(name)))
                raise InvalidProblemError(f"{name} has dtype {view.dtype}, expected {expected}")
        return form


_FA2 = {
    "num_heads": "num_heads", "seq_q": "query_len", "seq_k": "key_len", "softmax_scale": "scale", "out": "y",
    "softmax_lse": "lse", "alibi_slopes_ptr": "alibi_slopes",
}  # fmt: skip


class FlashSdpaPlan(_FlashPlan):
    """y = softmax(scale q k^T + mask) v and lse, the logarithm of the sum of each row's exponentials. mask is f32, and
    added. lse is of the element type; with windows, a cap or alibi_slopes, f32 of (batch_size, num_heads), it is f32 and
    +inf of a row that sees no key, else -inf."""

    __slots__ = ()
    op = "flash_sdpa_{T}"
    others = ("sdpa_{T}_arbmask", "fa2_sdpa_{T}_v2")
    names: ClassVar = _EXTENTS | _FA2

    def form_for(self, views: Views) -> Form:
        has_features = self.descriptor.has_features or views["alibi_slopes"] is not None
        if views["mask"] is None:
            return self._form_named("fa2" if has_features else "flash", views, "a window, cap or slope")
        if has_features:
            raise UnsupportedError("mask beside a window, cap or slope is not supported: scaled_dot_product_attention is")
        return self._form_named("sdpa", views, "a mask")


class FlashSdpaBackwardPlan(_FlashPlan):
    """Gradients from y and lse. With lse_f32, which FlashSdpaPlan gives where it has windows, a cap or alibi_slopes, lse
    and d_ws are not used; else d_ws receives the sums of y dy."""

    __slots__ = ()
    descriptor_base = FlashSdpaDescriptor
    op = "flash_sdpa_backward_{T}"
    others = ("fa2_sdpa_backward_{T}",)
    names: ClassVar = (
        _EXTENTS | _LOWER | _FA2 | {"o": "y", "dout": "dy", "fa2_sdpa_backward_{T}: lse": "lse_f32"}
    )

    def form_for(self, views: Views) -> Form:
        has_features = self.descriptor.has_features or views["alibi_slopes"] is not None
        if has_features and views["lse_f32"] is None:
            raise InvalidProblemError("lse_f32 is None, but is needed for a window, cap or slopes")
        return self._form_named("flash" if views["lse_f32"] is None else "fa2", views, "lse_f32")


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
class FlashSdpaVarlenDescriptor(Descriptor):
    """Sequence b has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] of q, (total_q, num_heads, d_k), and likewise of k and v."""

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
    is_causal: bool = descriptor.flag()
    window_size_left: int | None = descriptor.checked(_window, default=None)
    window_size_right: int | None = descriptor.checked(_window, default=None)
    softcap: float = descriptor.checked(_cap, default=0.0)

    @property
    def offsets(self) -> int:
        return self.batch_size + 1


class FlashSdpaVarlenPlan(Plan):
    """Attention of sequences in one tensor. lse is f32, (num_heads, total_q); alibi_slopes f32, (batch_size, num_heads)."""

    __slots__ = ()
    op = "fa2_sdpa_varlen_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.FLASH_ATTENTION
    names: ClassVar = {
        "batch": "batch_size", "head_dim": "d_k", "softmax_scale": "scale", "out": "y", "softmax_lse": "lse",
        "alibi_slopes_ptr": "alibi_slopes",
    }  # fmt: skip

    @property
    def numbers(self) -> Mapping[str, Any]:
        of = self.descriptor
        if of.d_k != of.d_v:
            raise UnsupportedError(f"d_k is {of.d_k} and d_v {of.d_v}, must be equal")
        return {
            "alibi_batch_stride": of.num_heads,
            "window_size_left": -1 if of.window_size_left is None else of.window_size_left,
            "window_size_right": -1 if of.window_size_right is None else of.window_size_right,
        }


class FlashSdpaVarlenBackwardPlan(FlashSdpaVarlenPlan):
    __slots__ = ()
    descriptor_base = FlashSdpaVarlenDescriptor
    op = "fa2_sdpa_varlen_backward_{T}"
    names: ClassVar = FlashSdpaVarlenPlan.names | {"o": "y", "dout": "dy"}

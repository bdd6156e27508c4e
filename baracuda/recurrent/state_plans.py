# SPDX-License-Identifier: Apache-2.0
"""Plans of recurrences of a matrix state: the gated delta rule, gated linear attention and RWKV-7.

Arrays are (batch, seqlen, heads, channels), of an update without seqlen; states and gates are f32, states
(sequences, heads, d_k, d_v). Without cu_seqlens sequences is batch; with it batch is 1, and cu_seqlens has
sequences + 1 offsets of rows.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, RecurrentKind
from baracuda.plan import Plan


class _RecurrentPlan(Plan):
    __slots__ = ()
    category = OpCategory.RECURRENT
    names: ClassVar = {"normalizes": "l2norm"}


class _SequencesDescriptor(Descriptor):
    sequences: int

    @property
    def boundaries(self) -> int:
        return self.sequences + 1


# --- gated delta rule ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GatedDeltaRuleDescriptor(_SequencesDescriptor):
    """l2norm divides q and k by sqrt(sum of squares + 1e-6); heads is a multiple of qk_heads."""

    batch: int = descriptor.extent()
    seqlen: int = descriptor.extent()
    sequences: int = descriptor.extent()
    qk_heads: int = descriptor.extent()
    heads: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    l2norm: bool = descriptor.flag()
    scale: float = descriptor.real(default=1.0)


class GatedDeltaRulePlan(_RecurrentPlan):
    """S = e^g S + k (beta (v - (e^g S)^T k))^T, y = scale S^T q; without g the delta rule."""

    __slots__ = ()
    op = "recurrent_gated_delta_rule_{T}"
    kind = RecurrentKind.GATED_DELTA_RULE


@dataclasses.dataclass(frozen=True)
class GatedDeltaRuleBackwardDescriptor(GatedDeltaRuleDescriptor):
    """The numbers of GatedDeltaRuleDescriptor."""


class GatedDeltaRuleBackwardPlan(_RecurrentPlan):
    """Gradients of GatedDeltaRulePlan; each result may be None."""

    __slots__ = ()
    op = "recurrent_gated_delta_rule_backward_{T}"
    kind = RecurrentKind.GATED_DELTA_RULE_BACKWARD


@dataclasses.dataclass(frozen=True)
class GatedDeltaRuleUpdateDescriptor(Descriptor):
    """One token of each of `batch` sequences."""

    batch: int = descriptor.extent()
    qk_heads: int = descriptor.extent()
    heads: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    l2norm: bool = descriptor.flag()
    scale: float = descriptor.real(default=1.0)


class GatedDeltaRuleUpdatePlan(_RecurrentPlan):
    """One token of GatedDeltaRulePlan; new_state may be state."""

    __slots__ = ()
    op = "recurrent_gated_delta_rule_update_{T}"
    kind = RecurrentKind.GATED_DELTA_RULE_UPDATE


# --- gated linear attention ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GatedLinearAttentionDescriptor(_SequencesDescriptor):
    """gate_width is d_k for gates of channels and 1 for gates of heads, or without gates."""

    batch: int = descriptor.extent()
    seqlen: int = descriptor.extent()
    sequences: int = descriptor.extent()
    qk_heads: int = descriptor.extent()
    heads: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    gate_width: int = descriptor.extent(default=1)
    scale: float = descriptor.real(default=1.0)


class GatedLinearAttentionPlan(_RecurrentPlan):
    """S = diag(e^g) S + k v^T, y = scale S^T q; with bonus, of RWKV-6, y = scale (S_old^T q + (q . bonus k) v)."""

    __slots__ = ()
    op = "recurrent_gated_linear_attention_{T}"
    kind = RecurrentKind.GATED_LINEAR_ATTENTION


@dataclasses.dataclass(frozen=True)
class GatedLinearAttentionBackwardDescriptor(GatedLinearAttentionDescriptor):
    """The numbers of GatedLinearAttentionDescriptor."""


class GatedLinearAttentionBackwardPlan(_RecurrentPlan):
    """Gradients of GatedLinearAttentionPlan; each result may be None."""

    __slots__ = ()
    op = "recurrent_gated_linear_attention_backward_{T}"
    kind = RecurrentKind.GATED_LINEAR_ATTENTION_BACKWARD


@dataclasses.dataclass(frozen=True)
class GatedLinearAttentionUpdateDescriptor(Descriptor):
    """One token of each of `batch` sequences."""

    batch: int = descriptor.extent()
    qk_heads: int = descriptor.extent()
    heads: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    gate_width: int = descriptor.extent(default=1)
    scale: float = descriptor.real(default=1.0)


class GatedLinearAttentionUpdatePlan(_RecurrentPlan):
    """One token of GatedLinearAttentionPlan; new_state may be state."""

    __slots__ = ()
    op = "recurrent_gated_linear_attention_update_{T}"
    kind = RecurrentKind.GATED_LINEAR_ATTENTION_UPDATE


# --- RWKV-7 ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Rwkv7Descriptor(_SequencesDescriptor):
    """All arrays but v, whose rows have d_v elements, have rows of d_k."""

    batch: int = descriptor.extent()
    seqlen: int = descriptor.extent()
    sequences: int = descriptor.extent()
    heads: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    scale: float = descriptor.real(default=1.0)


class Rwkv7Plan(_RecurrentPlan):
    """S = diag(e^w) S + b (S^T a)^T + k v^T, y = scale S^T r."""

    __slots__ = ()
    op = "rwkv7_{T}"
    kind = RecurrentKind.RWKV7


@dataclasses.dataclass(frozen=True)
class Rwkv7BackwardDescriptor(Rwkv7Descriptor):
    """The numbers of Rwkv7Descriptor."""


class Rwkv7BackwardPlan(_RecurrentPlan):
    """Gradients of Rwkv7Plan; each result may be None."""

    __slots__ = ()
    op = "rwkv7_backward_{T}"
    kind = RecurrentKind.RWKV7_BACKWARD


@dataclasses.dataclass(frozen=True)
class Rwkv7UpdateDescriptor(Descriptor):
    """One token of each of `batch` sequences."""

    batch: int = descriptor.extent()
    heads: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()
    scale: float = descriptor.real(default=1.0)


class Rwkv7UpdatePlan(_RecurrentPlan):
    """One token of Rwkv7Plan; new_state may be state."""

    __slots__ = ()
    op = "rwkv7_update_{T}"
    kind = RecurrentKind.RWKV7_UPDATE

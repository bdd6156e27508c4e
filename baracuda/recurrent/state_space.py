# SPDX-License-Identifier: Apache-2.0
"""Plans of state-space layers: causal convolutions along time, the scans of Mamba and Mamba 2, and their gradients.

Operands are contiguous and of one dtype; states are f32 within an op. The functions on arrays (baracuda.causal_conv1d,
selective_scan, ssd_scan) have strides, sequences of their own lengths, states in and out, and f32 parameters, too.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.plan import Plan


class _StateSpacePlan(Plan):
    __slots__ = ()
    category = OpCategory.ATTENTION


@dataclasses.dataclass(frozen=True)
class CausalConv1dDescriptor(Descriptor):
    """x is (batch, channels, seqlen), weight (channels, width); width is 2, 3 or 4."""

    batch: int = descriptor.extent()
    channels: int = descriptor.extent()
    seqlen: int = descriptor.extent()
    width: int = descriptor.extent()
    use_silu: bool = descriptor.flag()


class CausalConv1dBackwardDescriptor(CausalConv1dDescriptor):
    """Fields of the convolution."""


class CausalConv1dPlan(_StateSpacePlan):
    """y[t] = bias + sum over k of weight[k] x[t - (width - 1 - k)], or silu of it; bias may be None."""

    __slots__ = ()
    op = "causal_conv1d_{T}"
    kind = AttentionKind.CAUSAL_CONV1D


class CausalConv1dBackwardPlan(_StateSpacePlan):
    """dx is overwritten; dw and db, which may be None, accumulate."""

    __slots__ = ()
    op = "causal_conv1d_{T}_backward"
    kind = AttentionKind.CAUSAL_CONV1D


@dataclasses.dataclass(frozen=True)
class SelectiveScanDescriptor(Descriptor):
    """u is (batch, seqlen, dim), a (dim, dstate), b and c (batch, seqlen, dstate); dstate is at most 256."""

    batch: int = descriptor.extent()
    seqlen: int = descriptor.extent()
    dim: int = descriptor.extent()
    dstate: int = descriptor.extent()
    delta_softplus: bool = descriptor.flag()


class SelectiveScanBackwardDescriptor(SelectiveScanDescriptor):
    """Fields of the scan."""


class SelectiveScanPlan(_StateSpacePlan):
    """h = exp(s a) h + s b u, y = (c . h + d_skip u) silu(z); d_skip, z, delta_bias and last_state may be None."""

    __slots__ = ()
    op = "selective_scan_{T}"
    kind = AttentionKind.SELECTIVE_SCAN


class SelectiveScanBackwardPlan(_StateSpacePlan):
    """du, d_delta and dz are overwritten; d_a, d_b, d_c, d_d and d_delta_bias accumulate."""

    __slots__ = ()
    op = "selective_scan_{T}_backward"
    kind = AttentionKind.SELECTIVE_SCAN


@dataclasses.dataclass(frozen=True)
class SsdChunkScanDescriptor(Descriptor):
    """x is (batch, seqlen, heads, head_dim), b and c (batch, seqlen, heads, state_dim); head_dim and state_dim are at
    most 256. Results do not depend on chunk_size.
    """

    batch: int = descriptor.extent()
    seqlen: int = descriptor.extent()
    heads: int = descriptor.extent()
    head_dim: int = descriptor.extent()
    state_dim: int = descriptor.extent()
    chunk_size: int = descriptor.extent(1)


class SsdChunkScanBackwardDescriptor(SsdChunkScanDescriptor):
    """Fields of the scan."""


class SsdChunkScanPlan(_StateSpacePlan):
    """h = exp(dt a) h + dt x b^T, y = h c for each head."""

    __slots__ = ()
    op = "ssd_chunk_scan_{T}"
    kind = AttentionKind.SSD_CHUNK_SCAN


class SsdChunkScanBackwardPlan(_StateSpacePlan):
    """All gradients, overwritten."""

    __slots__ = ()
    op = "ssd_chunk_scan_{T}_backward"
    kind = AttentionKind.SSD_CHUNK_SCAN

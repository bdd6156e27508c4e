# SPDX-License-Identifier: Apache-2.0
"""Appending to contiguous KV caches.

Row l of k_new[b, h] is written to row cache_offsets[b] + l of k_cache[b, h], and likewise for v; rows outside
[0, max_cache_len) are dropped, and all other rows of the caches are unchanged.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class KvCacheAppendDescriptor(Descriptor):
    """Elements of any dtype of 8 bits or more; their bits are copied."""

    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    new_len: int = descriptor.extent()
    max_cache_len: int = descriptor.extent()
    d_k: int = descriptor.extent()
    d_v: int = descriptor.extent()


class KvCacheAppendPlan(Plan):
    """cache_offsets: batch_size row indices, i64, which the op does not advance."""

    __slots__ = ()
    op = "kv_cache_append_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.KV_CACHE
    names: ClassVar = {"batch": "batch_size", "heads": "num_heads"}

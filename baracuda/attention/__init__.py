# SPDX-License-Identifier: Apache-2.0
"""Attention: functions as PyTorch and FlashAttention name them; plans of dense, packed, paged and ring attention."""

from __future__ import annotations

from baracuda.attention.alibi import AlibiBackwardPlan as AlibiBackwardPlan
from baracuda.attention.alibi import AlibiDescriptor as AlibiDescriptor
from baracuda.attention.alibi import AlibiPlan as AlibiPlan
from baracuda.attention.kv_cache import KvCacheAppendDescriptor as KvCacheAppendDescriptor
from baracuda.attention.kv_cache import KvCacheAppendPlan as KvCacheAppendPlan

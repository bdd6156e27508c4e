# SPDX-License-Identifier: Apache-2.0
"""Attention with linear biases (ALiBi).

ALiBi (Press et al. 2022, without mask): out[b, h, i, j] = scores[b, h, i, j] + slopes[h] * (j - i), both positions
counted from 0. Backward: dscores = dy and dslopes[h] = sum over b, i, j of dy[b, h, i, j] * (j - i); either may be
None, not both. out may be scores, dscores dy.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class AlibiDescriptor(Descriptor):
    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    query_len: int = descriptor.extent()
    key_len: int = descriptor.extent()


_EXTENTS = {"batch": "batch_size", "heads": "num_heads", "q_len": "query_len", "k_len": "key_len"}


class AlibiPlan(Plan):
    __slots__ = ()
    op = "alibi_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.ALIBI
    names: ClassVar = {**_EXTENTS, "y": "out"}


class AlibiBackwardPlan(Plan):
    __slots__ = ()
    descriptor_base = AlibiDescriptor
    op = "alibi_backward_{T}"
    category = OpCategory.ATTENTION
    kind = AttentionKind.ALIBI
    names: ClassVar = {**_EXTENTS, "da": "dscores", "dslope": "dslopes"}

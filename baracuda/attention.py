"""Attention with linear biases (Press et al. 2022, without mask).

out[b, h, i, j] = scores[b, h, i, j] + slopes[h] * (j - i), both positions counted from 0. Backward: dscores = dy and
dslopes[h] = sum over b, i, j of dy[b, h, i, j] * (j - i); either may be None, not both. out may be scores, dscores dy.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import AttentionKind, OpCategory
from baracuda.operands import Args, Operand, Viewable, Views
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class AlibiDescriptor(Descriptor):
    batch_size: int = descriptor.extent()
    num_heads: int = descriptor.extent()
    query_len: int = descriptor.extent()
    key_len: int = descriptor.extent()


@dataclasses.dataclass(frozen=True)
class AlibiBackwardDescriptor(AlibiDescriptor):
    pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class AlibiArgs(Args):
    scores: Viewable
    slopes: Viewable
    out: Viewable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class AlibiBackwardArgs(Args):
    dy: Viewable
    dscores: Viewable | None = None
    dslopes: Viewable | None = None


_SCALARS = ("batch_size", "num_heads", "query_len", "key_len")


class AlibiPlan(Plan):
    __slots__ = ()
    op = "alibi_{T}"
    category = OpCategory.ATTENTION
    descriptor_type = AlibiDescriptor
    args_type = AlibiArgs
    scalars = _SCALARS
    operands = (
        Operand("scores", _SCALARS),
        Operand("slopes", ("num_heads",)),
        Operand("out", _SCALARS, output=True, may_be=("scores",)),
    )
    kind = AttentionKind.ALIBI


class AlibiBackwardPlan(Plan):
    __slots__ = ()
    op = "alibi_backward_{T}"
    category = OpCategory.ATTENTION
    descriptor_type = AlibiBackwardDescriptor
    args_type = AlibiBackwardArgs
    scalars = _SCALARS
    operands = (
        Operand("dy", _SCALARS),
        Operand("dscores", _SCALARS, output=True, optional=True, may_be=("dy",)),
        Operand("dslopes", ("num_heads",), output=True, optional=True),
    )
    kind = AttentionKind.ALIBI

    def check(self, views: Views) -> None:
        if views["dscores"] is None and views["dslopes"] is None:
            raise InvalidProblemError("dscores and dslopes are both None")

# SPDX-License-Identifier: Apache-2.0
"""Plans of mixtures of experts: routing, the order of pairs, and rows of tokens in this order.

Pair i is token i // top_k in slot i % top_k. order has the pairs by expert, position is its inverse; -1 stands for a
dropped pair, whose id is no expert, or which is beyond its expert's capacity.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import ExpertGroupScore, ExpertScoring, OpCategory, RoutingKind
from baracuda.plan import Plan


class _MoePlan(Plan):
    __slots__ = ()
    category = OpCategory.MOE


# --- routing ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class MoeRouteDescriptor(Descriptor):
    """n_group groups of neighbouring experts, of which topk_group compete; 1 of 1 is no grouping."""

    tokens: int = descriptor.extent()
    experts: int = descriptor.extent()
    top_k: int = descriptor.extent()
    scoring: ExpertScoring = descriptor.choice(ExpertScoring)
    group_score: ExpertGroupScore = descriptor.choice(ExpertGroupScore)
    renormalize: bool = descriptor.flag(True)
    n_group: int = descriptor.extent(1, default=1)
    topk_group: int = descriptor.extent(1, default=1)
    scale: float = descriptor.real(default=1.0)


class MoeRoutePlan(_MoePlan):
    """The top_k experts of each token and their weights; bias, of f32, shifts scores for the choice only."""

    __slots__ = ()
    op = "moe_route_{T}"
    kind = RoutingKind.ROUTE


@dataclasses.dataclass(frozen=True)
class MoeRouteBackwardDescriptor(Descriptor):
    """The numbers of MoeRouteDescriptor on which weights depend."""

    tokens: int = descriptor.extent()
    experts: int = descriptor.extent()
    top_k: int = descriptor.extent()
    scoring: ExpertScoring = descriptor.choice(ExpertScoring)
    renormalize: bool = descriptor.flag(True)
    scale: float = descriptor.real(default=1.0)


class MoeRouteBackwardPlan(_MoePlan):
    """Gradient of the logits, from that of the weights and the ids."""

    __slots__ = ()
    op = "moe_route_backward_{T}"
    kind = RoutingKind.ROUTE_BACKWARD


@dataclasses.dataclass(frozen=True)
class MoeSortDescriptor(Descriptor):
    """element is the dtype of the ids, i32 or i64; with capacity 0 no pair is beyond it."""

    tokens: int = descriptor.extent()
    top_k: int = descriptor.extent()
    experts: int = descriptor.extent()
    capacity: int = descriptor.extent(default=0)

    @property
    def pairs(self) -> int:
        return self.tokens * self.top_k

    @property
    def offset_count(self) -> int:
        return self.experts + 1


class MoeSortPlan(_MoePlan):
    """The stable order of pairs by expert, its inverse, counts and offsets."""

    __slots__ = ()
    op = "moe_sort_{T}"
    kind = RoutingKind.SORT


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class MoePermuteDescriptor(Descriptor):
    """rows of width elements, one for each entry of order."""

    tokens: int = descriptor.extent()
    rows: int = descriptor.extent()
    width: int = descriptor.extent()
    top_k: int = descriptor.extent(1)


class MoePermutePlan(_MoePlan):
    """Rows of tokens in the order of experts."""

    __slots__ = ()
    op = "moe_permute_{T}"
    kind = RoutingKind.PERMUTE


class _RowsDescriptor(Descriptor):
    tokens: int
    top_k: int
    rows: int
    width: int


@dataclasses.dataclass(frozen=True)
class MoePermuteBackwardDescriptor(_RowsDescriptor):
    """rows of width elements, one for each entry of order."""

    tokens: int = descriptor.extent()
    top_k: int = descriptor.extent()
    rows: int = descriptor.extent()
    width: int = descriptor.extent()


class MoePermuteBackwardPlan(_MoePlan):
    """The sum of each token's rows."""

    __slots__ = ()
    op = "moe_permute_backward_{T}"
    kind = RoutingKind.PERMUTE_BACKWARD


@dataclasses.dataclass(frozen=True)
class MoeCombineDescriptor(_RowsDescriptor):
    """rows of width elements, one for each entry of order."""

    tokens: int = descriptor.extent()
    top_k: int = descriptor.extent()
    rows: int = descriptor.extent()
    width: int = descriptor.extent()


class MoeCombinePlan(_MoePlan):
    """The weighted sum of each token's rows, in f32 and the order of slots; without weights they are 1."""

    __slots__ = ()
    op = "moe_combine_{T}"
    kind = RoutingKind.COMBINE


@dataclasses.dataclass(frozen=True)
class MoeCombineBackwardDescriptor(_RowsDescriptor):
    """rows of width elements, one for each entry of order."""

    tokens: int = descriptor.extent()
    top_k: int = descriptor.extent()
    rows: int = descriptor.extent()
    width: int = descriptor.extent()


class MoeCombineBackwardPlan(_MoePlan):
    """Gradients of rows and weights; either may be None."""

    __slots__ = ()
    op = "moe_combine_backward_{T}"
    kind = RoutingKind.COMBINE_BACKWARD

# SPDX-License-Identifier: Apache-2.0
"""Enumerations of mixtures of experts."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class ExpertScoring(IntEnum):
    """Functions that give experts their scores from logits."""

    SOFTMAX = 0
    SIGMOID = 1
    TOPK_SOFTMAX = 2


class ExpertGroupScore(IntEnum):
    """The value of a group of experts."""

    MAX = 0
    SUM_OF_TOP_2 = 1


class MoeKind(IntEnum):
    """Products of MoePlan."""

    SCALAR_GGUF = 0
    WMMA = 1
    WMMA_GGUF = 2


class RoutingKind(IntEnum):
    """Ops of a mixture of experts beside its products."""

    ROUTE = 200
    ROUTE_BACKWARD = 201
    SORT = 202
    PERMUTE = 203
    PERMUTE_BACKWARD = 204
    COMBINE = 205
    COMBINE_BACKWARD = 206

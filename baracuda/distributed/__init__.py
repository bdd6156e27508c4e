# SPDX-License-Identifier: Apache-2.0
"""Several GPUs, or several processes of the CPU: collectives and what training in parallel is made of.

    comm = bk.distributed.init()
    comm.all_reduce(gradient, op="avg", out=gradient)

is a program for torchrun, mpirun, or `python -m baracuda.distributed --ranks 4 program.py`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baracuda.distributed.buckets import GradientBuckets as GradientBuckets
    from baracuda.distributed.communicator import Communicator as Communicator
    from baracuda.distributed.environment import World as World
    from baracuda.distributed.environment import world_of as world_of
    from baracuda.distributed.errors import CheckpointError as CheckpointError
    from baracuda.distributed.errors import DistributedError as DistributedError
    from baracuda.distributed.errors import MismatchError as MismatchError
    from baracuda.distributed.errors import NcclError as NcclError
    from baracuda.distributed.errors import RankFailedError as RankFailedError
    from baracuda.distributed.errors import RankTimeoutError as RankTimeoutError
    from baracuda.distributed.errors import RendezvousError as RendezvousError
    from baracuda.distributed.experts import Dispatch as Dispatch
    from baracuda.distributed.experts import expert_parallel_moe as expert_parallel_moe
    from baracuda.distributed.experts import expert_parallel_moe_backward as expert_parallel_moe_backward
    from baracuda.distributed.experts import plan_dispatch as plan_dispatch
    from baracuda.distributed.heads import head_parallel_attention as head_parallel_attention
    from baracuda.distributed.heads import head_parallel_attention_backward as head_parallel_attention_backward
    from baracuda.distributed.heads import heads_to_tokens as heads_to_tokens
    from baracuda.distributed.heads import tokens_to_heads as tokens_to_heads
    from baracuda.distributed.launch import run as run
    from baracuda.distributed.linear import column_parallel_linear as column_parallel_linear
    from baracuda.distributed.linear import column_parallel_linear_backward as column_parallel_linear_backward
    from baracuda.distributed.linear import gather_features as gather_features
    from baracuda.distributed.linear import row_parallel_linear as row_parallel_linear
    from baracuda.distributed.linear import row_parallel_linear_backward as row_parallel_linear_backward
    from baracuda.distributed.linear import scatter_features as scatter_features
    from baracuda.distributed.mesh import Layout as Layout
    from baracuda.distributed.mesh import Mesh as Mesh
    from baracuda.distributed.mesh import Split as Split
    from baracuda.distributed.plans import ColumnParallelLinearPlan as ColumnParallelLinearPlan
    from baracuda.distributed.plans import DistributedAdamStepPlan as DistributedAdamStepPlan
    from baracuda.distributed.plans import RowParallelLinearPlan as RowParallelLinearPlan
    from baracuda.distributed.plans import TensorParallelContext as TensorParallelContext
    from baracuda.distributed.plans import shard_range as shard_range
    from baracuda.distributed.ring import ring_attention as ring_attention
    from baracuda.distributed.ring import ring_attention_backward as ring_attention_backward
    from baracuda.distributed.ring import zigzag_positions as zigzag_positions
    from baracuda.distributed.vocabulary import vocabulary_parallel_cross_entropy as vocabulary_parallel_cross_entropy
    from baracuda.distributed.vocabulary import vocabulary_parallel_embedding as vocabulary_parallel_embedding
    from baracuda.distributed.vocabulary import (
        vocabulary_parallel_embedding_backward as vocabulary_parallel_embedding_backward,
    )
    from baracuda.distributed.world import from_nccl as from_nccl
    from baracuda.distributed.world import init as init
    from baracuda.distributed.zero import ShardedParameters as ShardedParameters

_NAMES = {
    "buckets": "GradientBuckets",
    "communicator": "Communicator",
    "environment": "World world_of",
    "errors": (
        "CheckpointError DistributedError MismatchError NcclError RankFailedError RankTimeoutError RendezvousError"
    ),
    "experts": "Dispatch expert_parallel_moe expert_parallel_moe_backward plan_dispatch",
    "heads": "head_parallel_attention head_parallel_attention_backward heads_to_tokens tokens_to_heads",
    "launch": "run",
    "linear": (
        "column_parallel_linear column_parallel_linear_backward gather_features row_parallel_linear "
        "row_parallel_linear_backward scatter_features"
    ),
    "mesh": "Layout Mesh Split",
    "plans": (
        "ColumnParallelLinearPlan DistributedAdamStepPlan RowParallelLinearPlan TensorParallelContext shard_range"
    ),
    "ring": "ring_attention ring_attention_backward zigzag_positions",
    "vocabulary": (
        "vocabulary_parallel_cross_entropy vocabulary_parallel_embedding vocabulary_parallel_embedding_backward"
    ),
    "world": "from_nccl init",
    "zero": "ShardedParameters",
}
_LAZY = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_LAZY)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

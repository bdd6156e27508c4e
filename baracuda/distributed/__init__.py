# SPDX-License-Identifier: Apache-2.0
"""Several GPUs, or several processes of the CPU: collectives and what training in parallel is made of.

comm = bk.distributed.init()               # torchrun, mpirun, or python -m baracuda.distributed --ranks 4
program.py comm.all_reduce(gradient, op="avg", out=gradient)
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from baracuda.distributed.launch import run as run
    from baracuda.distributed.mesh import Layout as Layout
    from baracuda.distributed.mesh import Mesh as Mesh
    from baracuda.distributed.mesh import Split as Split
    from baracuda.distributed.world import from_nccl as from_nccl
    from baracuda.distributed.world import init as init

_NAMES = {
    "communicator": "Communicator",
    "environment": "World world_of",
    "errors": (
        "CheckpointError DistributedError MismatchError NcclError RankFailedError RankTimeoutError RendezvousError"
    ),
    "launch": "run",
    "mesh": "Layout Mesh Split",
    "world": "from_nccl init",
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

# SPDX-License-Identifier: Apache-2.0
"""Errors of communicators. Each names the ranks at fault; every rank of the group raises one within the time-out."""

from __future__ import annotations

from typing import Any, ClassVar

from baracuda.errors import BaracudaError, Status


class DistributedError(BaracudaError, RuntimeError):
    """Base of all errors of several ranks. `ranks` are those at fault, where they are known."""

    default_status: ClassVar[int] = Status.INTERNAL

    def __init__(self, text: str, ranks: tuple[int, ...] = (), **options: Any) -> None:
        super().__init__(text, **options)
        self.ranks = ranks

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text, self.ranks), self.__dict__


class RendezvousError(DistributedError):
    """The ranks did not find each other, or disagree about their number."""

    default_status = Status.INVALID_PROBLEM


class RankTimeoutError(DistributedError, TimeoutError):
    """A rank did not arrive in time. The communicator cannot be used any more."""


class RankFailedError(DistributedError, ConnectionError):
    """A rank died, closed its communicator or gave up. The communicator cannot be used any more."""


class MismatchError(DistributedError, ValueError):
    """The ranks called different operations, or with dtypes, shapes or roots that do not fit. Nothing was sent, and the
    communicator can still be used.
    """

    default_status = Status.INVALID_PROBLEM


class NcclError(DistributedError):
    """A call of NCCL failed. The communicator cannot be used any more."""


class CheckpointError(DistributedError, ValueError):
    """A checkpoint is incomplete, damaged or of another model."""

    default_status = Status.INVALID_PROBLEM

# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification.

The gradient reads the forward's alpha and its workspace, the losses of the samples. It is the gradient by the logits,
with log_probs their log-softmax. mean_denom is the sum of the target lengths for MEAN, else 1.

Ragged plans take padded or concatenated targets of 32 or 64 bits; their MEAN is over losses divided by target lengths,
and their gradient needs no number from the host.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind
from baracuda.kinds import LossKind, LossReduction, OpCategory
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class CtcLossDescriptor(Descriptor):
    max_time: int = descriptor.extent()
    batch_size: int = descriptor.extent()
    num_classes: int = descriptor.extent()
    max_target_len: int = descriptor.extent()
    blank: int = descriptor.extent()
    reduction: LossReduction = descriptor.choice(LossReduction)
    zero_infinity: int = descriptor.extent()

    @property
    def results(self) -> int:
        return self.batch_size if self.reduction is LossReduction.NONE else 1

    @property
    def states(self) -> int:
        return 2 * self.max_target_len + 1

    def alpha_workspace_size(self) -> int:
        """Bytes of alpha."""
        wide = 8 if self.element is ElementKind.F64 else 4
        return self.max_time * self.batch_size * self.states * wide


@dataclasses.dataclass(frozen=True)
class CtcLossBackwardDescriptor(CtcLossDescriptor):
    mean_denom: int = descriptor.checked(lambda name, value: as_integer(name, value, 1), default=1)

    @property
    def inv_denom(self) -> float:
        return 1 / self.mean_denom


class CtcLossPlan(Plan):
    __slots__ = ()
    op = "loss_ctc_{T}"
    category = OpCategory.LOSS
    kind = LossKind.CTC
    names: ClassVar = {"reduction_mode": "reduction", "alpha_ws": "alpha", "out": "loss"}


class CtcLossBackwardPlan(CtcLossPlan):
    __slots__ = ()
    op = "loss_ctc_backward_{T}"


@dataclasses.dataclass(frozen=True)
class RaggedCtcLossDescriptor(CtcLossDescriptor):
    """concatenated is the number of concatenated targets; None: they are padded to (batch_size, max_target_len)."""

    concatenated: int | None = descriptor.checked(
        lambda name, value: None if value is None else as_integer(name, value, 0), default=None
    )

    @property
    def is_concatenated(self) -> int:
        return int(self.concatenated is not None)

    @property
    def targets_numel(self) -> int:
        return self.batch_size * self.max_target_len if self.concatenated is None else self.concatenated

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.batch_size, self.max_target_len) if self.concatenated is None else (self.concatenated,)


class RaggedCtcLossPlan(Plan):
    __slots__ = ()
    op = "loss_ctc_ragged{I}_{T}"
    category = OpCategory.LOSS
    kind = LossKind.CTC
    names: ClassVar = {"reduction_mode": "reduction", "out": "loss"}
    shapes: ClassVar = {"targets": "target_shape"}


class RaggedCtcLossBackwardPlan(RaggedCtcLossPlan):
    __slots__ = ()
    op = "loss_ctc_ragged_backward{I}_{T}"

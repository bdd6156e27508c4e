# SPDX-License-Identifier: Apache-2.0
"""Plans of one layer of an LSTM, a GRU or an RNN behind the product of its inputs.

gates is (seqlen, batch, directions, gate_rows), gate_rows being hidden times 4, 3 or 1; outputs is hidden unless an
LSTM has a projection.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda.descriptor import Descriptor
from baracuda.kinds import CellKind, OpCategory, RecurrentKind
from baracuda.plan import Plan

_GATES = {CellKind.RNN_TANH: 1, CellKind.RNN_RELU: 1, CellKind.GRU: 3, CellKind.GRU_RESET_FIRST: 3, CellKind.LSTM: 4}


@dataclasses.dataclass(frozen=True)
class RecurrentCellsDescriptor(Descriptor):
    """reverse makes a single direction go backwards; the second of two always does."""

    seqlen: int = descriptor.extent()
    batch: int = descriptor.extent()
    directions: int = descriptor.extent()
    hidden: int = descriptor.extent()
    outputs: int = descriptor.extent()
    cell: CellKind = descriptor.choice(CellKind)
    reverse: bool = descriptor.flag()

    @property
    def gate_rows(self) -> int:
        return _GATES[self.cell] * self.hidden

    @property
    def saved_rows(self) -> int:
        gates = _GATES[self.cell]
        return (gates + (gates > 1)) * self.hidden

    @property
    def cell_rows(self) -> int:
        return self.hidden if self.cell is CellKind.LSTM else 0


class RecurrentCellsPlan(Plan):
    """y, and h and c after the last token; reserve is what the gradient reads."""

    __slots__ = ()
    category = OpCategory.RECURRENT
    op = "recurrent_cells_{T}"
    kind = RecurrentKind.CELLS


@dataclasses.dataclass(frozen=True)
class RecurrentCellsBackwardDescriptor(RecurrentCellsDescriptor):
    """The numbers of RecurrentCellsDescriptor."""


class RecurrentCellsBackwardPlan(Plan):
    """Gradients of RecurrentCellsPlan; each result but dgates may be None."""

    __slots__ = ()
    category = OpCategory.RECURRENT
    op = "recurrent_cells_backward_{T}"
    kind = RecurrentKind.CELLS_BACKWARD

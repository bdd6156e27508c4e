# SPDX-License-Identifier: Apache-2.0
"""Enumerations of recurrent layers."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class RecurrentKind(IntEnum):
    """Recurrences, their gradients, and steps of one token."""

    GATED_DELTA_RULE = 200
    GATED_DELTA_RULE_BACKWARD = 201
    GATED_DELTA_RULE_UPDATE = 202
    GATED_LINEAR_ATTENTION = 203
    GATED_LINEAR_ATTENTION_BACKWARD = 204
    GATED_LINEAR_ATTENTION_UPDATE = 205
    RWKV7 = 206
    RWKV7_BACKWARD = 207
    RWKV7_UPDATE = 208
    CELLS = 209
    CELLS_BACKWARD = 210


class CellKind(IntEnum):
    """The cell of a recurrent layer."""

    RNN_TANH = 0
    RNN_RELU = 1
    GRU = 2
    GRU_RESET_FIRST = 3
    LSTM = 4

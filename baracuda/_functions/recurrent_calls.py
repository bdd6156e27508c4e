# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers by calls of other functions, for arrays of any framework: one product for the inputs of all
tokens and directions, then the recurrence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from baracuda.errors import InvalidProblemError

NAMES = ("gru", "lstm", "rnn")
CALLED = ("linear", "recurrent_cells", "concat")  # functions that they call
GATES = {"lstm": 4, "gru": 3, "gru_reset_first": 3, "rnn_tanh": 1, "rnn_relu": 1}
Call = Callable[..., Any]  # calls a function by its name


def lstm(
    call: Call, x: Any, weights: Sequence[Any], h0: Any = None, c0: Any = None, lengths: Any = None, *,
    has_biases: bool = True, bidirectional: bool = False, batch_first: bool = False, has_projections: bool = False,
) -> Any:  # fmt: skip
    """baracuda.lstm for one framework."""
    return _layers(call, "lstm", x, weights, h0, c0, lengths, has_biases, bidirectional, batch_first, has_projections)


def gru(
    call: Call, x: Any, weights: Sequence[Any], h0: Any = None, lengths: Any = None, *, has_biases: bool = True,
    bidirectional: bool = False, batch_first: bool = False, linear_before_reset: bool = True,
) -> Any:  # fmt: skip
    """baracuda.gru for one framework."""
    cell = "gru" if linear_before_reset else "gru_reset_first"
    return _layers(call, cell, x, weights, h0, None, lengths, has_biases, bidirectional, batch_first, False)[:2]


def rnn(
    call: Call, x: Any, weights: Sequence[Any], h0: Any = None, lengths: Any = None, *, nonlinearity: str = "tanh",
    has_biases: bool = True, bidirectional: bool = False, batch_first: bool = False,
) -> Any:  # fmt: skip
    """baracuda.rnn for one framework."""
    if nonlinearity not in ("tanh", "relu"):
        raise InvalidProblemError(f"nonlinearity is {nonlinearity!r}, must be 'tanh' or 'relu'")
    cell = f"rnn_{nonlinearity}"
    return _layers(call, cell, x, weights, h0, None, lengths, has_biases, bidirectional, batch_first, False)[:2]


def _layers(
    call: Call, cell: str, x: Any, weights: Sequence[Any], h0: Any, c0: Any, lengths: Any, has_biases: bool,
    bidirectional: bool, batch_first: bool, has_projections: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    directions = 2 if bidirectional else 1
    each = 2 + 2 * has_biases + has_projections
    _check(x, weights, each * directions)
    layers = len(weights) // (each * directions)
    tokens = x.swapaxes(0, 1) if batch_first else x
    h_n, c_n = [], []
    for layer in range(layers):
        own = [weights[(layer * directions + d) * each :][:each] for d in range(directions)]
        first = layer * directions
        states = [None if s is None else s[first : first + directions] for s in (h0, c0)]
        tokens, h, c = _layer(call, cell, tokens, own, states, lengths, has_biases, has_projections)
        h_n.append(h)
        c_n.append(c)
    y = tokens.swapaxes(0, 1) if batch_first else tokens
    return y, _concatenated(call, h_n), _concatenated(call, c_n)


def _layer(
    call: Call, cell: str, x: Any, weights: Sequence[Sequence[Any]], states: Sequence[Any], lengths: Any,
    has_biases: bool, has_projections: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """One layer: weights are w_ih, w_hh, b_ih, b_hh and w_hr of each direction, without those that it does not have."""
    directions, seqlen, batch = len(weights), x.shape[0], x.shape[1]
    gate_rows = weights[0][0].shape[0]
    if len(weights[0][0].shape) != 2 or weights[0][0].shape[1] != x.shape[-1] or gate_rows % GATES[cell]:
        raise InvalidProblemError(
            f"w_ih has shape {tuple(weights[0][0].shape)}, expected ({GATES[cell]} * hidden, {x.shape[-1]})"
        )
    w_ih = _concatenated(call, [own[0] for own in weights])
    b_ih = _concatenated(call, [own[2] for own in weights]) if has_biases else None
    rows = x.reshape(seqlen * batch, x.shape[-1])
    gates = call("linear", rows, w_ih, *([] if b_ih is None else [b_ih]))
    stacked = [_concatenated(call, [own[k][None] for own in weights]) for k in range(1, len(weights[0]))]
    w_hh, b_hh, w_hr = stacked[0], stacked[2] if has_biases else None, stacked[-1] if has_projections else None
    y, h, c = call(
        "recurrent_cells", gates.reshape(seqlen, batch, directions, gate_rows), w_hh, b_hh, w_hr, *states, lengths,
        cell=cell,
    )  # fmt: skip
    return y.reshape(seqlen, batch, directions * y.shape[-1]), h, c


def _concatenated(call: Call, parts: Sequence[Any]) -> Any:
    """Arrays one behind the other along the first axis."""
    found = parts[0]
    for part in parts[1:]:
        found = call("concat", found, part, axis=0)
    return found


def _check(x: Any, weights: Sequence[Any], each: int) -> None:
    if len(x.shape) != 3:
        raise InvalidProblemError(f"x has shape {tuple(x.shape)}, must have 3 axes")
    if not weights or len(weights) % each:
        raise InvalidProblemError(f"weights has {len(weights)} arrays, must have {each} for each layer")

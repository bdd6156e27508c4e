# SPDX-License-Identifier: Apache-2.0
"""Layers of recurrent networks: LSTM, GRU and RNN, of several layers and one or two directions.

They take the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import given_array
from baracuda._functions import recurrent_calls
from baracuda._functions.recurrent_calls import NAMES
from baracuda.errors import naming

__all__ = list(NAMES)


def _call(name: str, *arrays: Any, **numbers: Any) -> Any:
    return getattr(functions, name)(*arrays, **numbers)


def _given(weights: Sequence[Any]) -> list[Any]:
    return [given_array(each, f"weights[{k}]") for k, each in enumerate(weights)]


@naming("lstm")
def lstm(
    x: Any, weights: Sequence[Any], h0: Any = None, c0: Any = None, lengths: Any = None, *, has_biases: bool = True,
    bidirectional: bool = False, batch_first: bool = False, has_projections: bool = False,
) -> Any:  # fmt: skip
    """y, h_n and c_n of an LSTM of one or more layers: i, f, o = sigmoid(W x + R h), g = tanh(W x + R h), c = f c + i g
    and h = o tanh(c), times w_hr with projections.

    x is (seqlen, batch, features), or (batch, seqlen, features) with batch_first; weights has, layer by layer and in it
    direction by direction, w_ih (4 hidden, features), w_hh (4 hidden, outputs), with biases b_ih and b_hh (4 hidden),
    and with projections w_hr (outputs, hidden): torch.nn.LSTM's _flat_weights, gates in the order i, f, g, o. h0 and
    c0, like h_n and c_n, are (layers * directions, batch, outputs), of c hidden; without them states begin with 0.

    lengths, of i32, are the sequences' numbers of tokens: what is behind them changes no state, and y is 0 there. The
    second direction begins with a sequence's last token. It calls linear, once for each layer, and recurrent_cells.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    return recurrent_calls.lstm(
        _call, given_array(x, "x"), _given(weights), h0, c0, lengths, has_biases=has_biases,
        bidirectional=bidirectional, batch_first=batch_first, has_projections=has_projections,
    )  # fmt: skip


@naming("gru")
def gru(
    x: Any, weights: Sequence[Any], h0: Any = None, lengths: Any = None, *, has_biases: bool = True,
    bidirectional: bool = False, batch_first: bool = False, linear_before_reset: bool = True,
) -> Any:  # fmt: skip
    """y and h_n of a GRU: r, z = sigmoid(W x + R h), n = tanh(W x + r (R h + b)), h = (1 - z) n + z h.

    Arguments are those of lstm, with gates in the order r, z, n, as torch.nn.GRU has them. Without linear_before_reset,
    which is ONNX's default, n = tanh(W x + R (r h) + b). ONNX has the gates z, r, n.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    return recurrent_calls.gru(
        _call, given_array(x, "x"), _given(weights), h0, lengths, has_biases=has_biases, bidirectional=bidirectional,
        batch_first=batch_first, linear_before_reset=linear_before_reset,
    )  # fmt: skip


@naming("rnn")
def rnn(
    x: Any, weights: Sequence[Any], h0: Any = None, lengths: Any = None, *, nonlinearity: str = "tanh",
    has_biases: bool = True, bidirectional: bool = False, batch_first: bool = False,
) -> Any:  # fmt: skip
    """y and h_n of an RNN: h = tanh(W x + R h), or relu.

    Arguments are those of lstm, with matrices of hidden rows, as torch.nn.RNN has them.

    InvalidProblemError for shapes that do not fit, and dtypes that differ.
    """
    return recurrent_calls.rnn(
        _call, given_array(x, "x"), _given(weights), h0, lengths, nonlinearity=nonlinearity, has_biases=has_biases,
        bidirectional=bidirectional, batch_first=batch_first,
    )  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: matrix states of linear attention, and LSTM, GRU and RNN."""

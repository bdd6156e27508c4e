# SPDX-License-Identifier: Apache-2.0
"""Functions of the bits of integers, and of truth values: every byte other than 0 is true."""

import numpy as np

from ..function import Binary, Truth, Unary


def ctz(x, width):
    word = x % 2**width
    return (word & -word).bit_length() - 1 if word else width


FUNCTIONS = (
    Unary("bitwise_not", integer=lambda x, _: ~x),
    Unary("popcount", integer=lambda x, width: (x % 2**width).bit_count(), torch=None),
    Unary("clz", integer=lambda x, width: width - (x % 2**width).bit_length(), torch=None),
    Unary("ctz", integer=ctz, torch=None),
    Unary("logical_not", integer=lambda x, _: int(x == 0)),
    Binary("bitwise_and", integer=lambda a, b, _: a & b),
    Binary("bitwise_or", integer=lambda a, b, _: a | b),
    Binary("bitwise_xor", integer=lambda a, b, _: a ^ b),
    Binary("bitwise_left_shift", integer=lambda a, b, width: a << b if 0 <= b < width else 0),
    Binary("bitwise_right_shift", integer=lambda a, b, width: a >> (b if 0 <= b < width else width)),
    Truth("logical_and", holds=np.logical_and),
    Truth("logical_or", holds=np.logical_or),
    Truth("logical_xor", holds=np.logical_xor),
)

"""Functions of two integers, on Python's, one pair at a time; w is the width of the dtype in bits."""

import numpy as np

from harness.numerics import LIMITS, width


def quotient_to_zero(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def power(a, b, w):
    if b >= 0:
        return pow(a, b, 2**w)
    return {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)


def right_shift(a, b, w):
    return a >> (b if 0 <= b < w else w)


FUNCTIONS = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul": lambda a, b, w: a * b,
    "div": lambda a, b, w: quotient_to_zero(a, b) if b else 0,
    "pow": power,
    "minimum": lambda a, b, w: min(a, b),
    "maximum": lambda a, b, w: max(a, b),
    "floor_divide": lambda a, b, w: a // b if b else 0,
    "mod": lambda a, b, w: a % b if b else 0,
    "remainder": lambda a, b, w: a - b * quotient_to_zero(a, b) if b else 0,
    "bitwise_and": lambda a, b, w: a & b,
    "bitwise_or": lambda a, b, w: a | b,
    "bitwise_xor": lambda a, b, w: a ^ b,
    "bitwise_left_shift": lambda a, b, w: a << b if 0 <= b < w else 0,
    "bitwise_right_shift": right_shift,
}


def apply(function: str, a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Element by element, modulo 2^width."""
    f, w, low = FUNCTIONS[function], width(dtype), LIMITS[dtype][0]
    a, b = np.broadcast_arrays(a, b)
    values = [(f(x, y, w) - low) % 2**w + low for x, y in zip(a.ravel().tolist(), b.ravel().tolist())]
    return np.array(values, np.uint64 if dtype == "u64" else np.int64).reshape(a.shape)

# SPDX-License-Identifier: Apache-2.0
"""Expected results of functions and plans, from the entries of the oracle, and operands that expose a wrong function.

Accuracy at the edges is tested by test_ops; these values only tell that the right function of the right operands comes
out. Results are those for exact operands, in float64.
"""

import numpy as np

from baracuda._functions.spec import specs
from cases.elementwise.affine import fused
from cases.elementwise.lerp import WEIGHTS, interpolated, lerp_partials
from tools.bench.elementwise import entry_of, function_of
from tools.oracle.function import Binary, Ternary, Unary
from tools.oracle.pairs import Partial
from tools.oracle.reals import wide

# Functions that tests/cases know and the oracle does not, as entries; and parameters of a call where an entry has none.
WITHOUT_ENTRY = {
    "lerp": Binary(
        "lerp",
        forward=lambda a, b, _, p: interpolated(a, b, p)[0],
        backward=lambda dy, a, b, _, p: tuple(map(Partial, lerp_partials(dy, p))),
    ),
    "affine": Unary("affine", forward=lambda x, a, b: fused(a, x, b, "f64"), parameters=((1.5, -0.25),)),
}
NUMBERS = {"lerp": tuple((weight,) for weight in WEIGHTS)}
REACH, EDGE = 7, 1 / 16  # arguments are drawn up to REACH, and no closer than EDGE to the end of a domain


def entry(name):
    """The entry of a function of baracuda.functions, for a gradient that of its function; None if there is none."""
    spec = specs()[name]
    row = spec.row.name
    return WITHOUT_ENTRY.get(name.removesuffix("_backward")) or entry_of(row, function_of(row, spec.function))


def has_value(f):
    """Whether f is an entry with a formula on floats."""
    return isinstance(f, (Unary, Binary, Ternary)) and f.forward is not None


def has_gradient(f):
    return bool(f.has_gradient if isinstance(f, Unary) else f.backward)


def intervals(f):
    """Intervals that operands are drawn from: for a function of one argument, its domain near 0."""
    if isinstance(f, Unary):
        low, high = f.ordinary or f.domain
        return [(max(low + EDGE, -REACH), min(high - EDGE, REACH))]
    if isinstance(f, Binary):
        return [(0.5, 2) if f.base else (-2, 2), (0.25, 2)]
    return [(0.5, 2)] * 3


def choices(f):
    """Tuples of parameters to call f with, of moderate size; an empty one if f takes none."""
    given = NUMBERS.get(f.name) or getattr(f, "parameters", ()) or (getattr(f, "timed", ()),)
    return [numbers for numbers in given if all(abs(number) <= 100 for number in numbers)]


def value(f, *operands, numbers=()):
    """f of the operands, which are broadcast against one another."""
    shape = np.broadcast_shapes(*map(np.shape, operands))
    operands = [np.atleast_1d(np.asarray(x, np.float64)) for x in operands]
    with np.errstate(all="ignore"):
        if isinstance(f, Unary):
            result = f.value(*operands, *numbers)
        else:
            result = f.forward(*operands, "f64", *numbers)
            result = getattr(result, "value", result)
        return np.asarray(result, np.float64).reshape(shape)


def gradients(f, dy, *operands, numbers=()):
    """The gradient of each operand in the shape of dy, before any sum over axes along which an operand was broadcast.

    For a Unary the operand is what its gradient reads, x or y.
    """
    flat = [np.atleast_1d(np.asarray(x, np.float64)) for x in (dy, *operands)]
    with np.errstate(all="ignore"):
        if isinstance(f, Unary):
            found = [f.gradient(*flat, *numbers)]
        else:
            found = [partial.value for partial in f.backward(*flat, "f64", *numbers)]
        spread = [np.broadcast_to(each, np.broadcast_shapes(*map(np.shape, flat))) for each in found]
        return [np.asarray(each, np.float64).reshape(np.shape(dy)) for each in spread]


def gated(f, x, axis):
    """a gate(b) for the halves a, b of x along the axis."""
    a, b = np.split(x, 2, axis)
    return np.asarray(a * f.gate(wide(b)), np.float64)


def gated_gradient(f, dy, x, axis):
    a, b = np.split(x, 2, axis)
    slope, _ = f.slope(wide(b))
    return np.concatenate([dy * f.gate(wide(b)), dy * a * slope], axis).astype(np.float64)


def stored(values, dtype):
    """The values rounded to the dtype: too large ones become infinity."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(dtype).astype(np.float64)


def of_integers(f, *arrays):
    """f of integer arrays of one dtype, modulo 2^width."""
    dtype = arrays[0].dtype
    return f.of_integers(*arrays, f"{dtype.kind}{8 * dtype.itemsize}")

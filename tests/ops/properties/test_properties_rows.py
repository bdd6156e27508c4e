# SPDX-License-Identifier: Apache-2.0
"""Properties of reductions, softmax, norms and exclusive scans over random shapes, axes, strides and lengths, including
lengths around which work is divided differently; the case table holds the references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tolerances
from cases import Draw, scan, strides_for
from cases.norm import rows as norm_rows
from cases.reduce import axes as reduce_axes
from cases.softmax import softmax
from harness import FLOATS, INTEGERS, OPS, launch
from harness.strategies import NAMES, bounded, dtypes, layouts, offsets, run, seeds, shapes
from tools.oracle.numerics import UNIT_ROUNDOFF

# Lengths at which a group of lanes, a vector, a warp, a block or a tile ends.
BOUNDARIES = (1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 4097)
BOTH = (None, "full")


@st.composite
def lengths(draw):
    """Shapes of up to four axes, one of which is as long as a boundary."""
    short = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 3)))]
    short.insert(draw(st.integers(0, len(short))), draw(st.sampled_from(BOUNDARIES)))
    return tuple(short)


any_shapes = st.one_of(shapes(st.integers(1, 6)), lengths())
# row -> dtypes, functions, outputs, distribution of values
REDUCTIONS = {
    "reduce_{F}_axes_{T}": (FLOATS, ("sum", "mean", "max", "min", "prod"), {"y": ""}, "factors"),
    "reduce_{F}_axes_{T} integers": (INTEGERS, ("sum", "max", "min", "prod"), {"y": ""}, "special"),
    "reduce_{F}_axes_{T} floats": (FLOATS, ("norm2", "logsumexp"), {"y": ""}, "normal"),
    "reduce_{F}_axes_{T} numbers": (FLOATS, ("fmax", "fmin"), {"y": ""}, "spiked"),
    "reduce_{F}_axes_{T} moments": (FLOATS, ("var", "std"), {"y": "", "mean": ""}, "normal"),
    "reduce_{F}_axes_{T} truth": ((*FLOATS, *INTEGERS, "bool"), ("any", "all"), {"y": "bool"}, "sparse"),
    "arg_reduce_{F}_axes_{T}_{U}": (FLOATS, ("argmax", "argmin"), {"value": "", "place": "U"}, "ties"),
}
REFERENCES = {"reduce_{F}_axes_{T} moments": {"correction": 1}}


@bounded
@given(st.data(), st.sampled_from(list(REDUCTIONS)), any_shapes, seeds, offsets)
def test_reductions(library, data, row, shape, seed, offset):
    """Any set of axes, including none and all, of operands in any layout."""
    dtypes, functions, outputs, kind = REDUCTIONS[row]
    slots = {"F": data.draw(st.sampled_from(functions)), "T": data.draw(st.sampled_from(dtypes))}
    slots |= {"U": data.draw(st.sampled_from(("i32", "i64")))} if "U" in outputs.values() else {}
    if (row, frozenset(slots.items())) not in NAMES:
        return
    axes = tuple(a for a in range(len(shape)) if data.draw(st.booleans()))
    x, y = data.draw(layouts(len(shape))), data.draw(layouts(len(shape)))
    if max(shape) < 64:
        x["broadcast"] = tuple(a for a in range(len(shape)) if data.draw(st.integers(0, 3)) == 0)
    numbers = REFERENCES.get(row, {})
    problem = reduce_axes.over(Draw(slots, seed), shape, axes, kind, x=x, y=y, outputs=outputs, **numbers)
    run(library, row, slots, problem, offset, BOTH)


@bounded
@given(st.data(), any_shapes, dtypes, seeds, offsets, st.sampled_from(["", "log_"]))
def test_softmax(library, data, shape, dtype, seed, offset, log):
    """Softmax along any axis in any layout, also of equal values and of -infinity, and its gradient."""
    axis, slots = data.draw(st.integers(0, len(shape) - 1)), {"T": dtype}
    kind = data.draw(st.sampled_from(["normal", "infinite", "equal", "spread"]))
    x, y = data.draw(layouts(len(shape), broadcast=max(shape) < 64)), data.draw(layouts(len(shape)))
    problem = softmax.forward(Draw(slots, seed), shape, axis, kind, x=x, y=y)
    run(library, f"{log}softmax_{{T}}", slots, problem, offset, BOTH)
    make = softmax.backward(softmax.softmax_reference(bool(log)))
    problem = make(Draw(slots, seed), shape, axis, "normal", dy=x, dx=y)
    run(library, f"{log}softmax_backward_{{T}}", slots, problem, offset, BOTH)


@bounded
@given(st.data(), any_shapes, dtypes, seeds, offsets, st.booleans())
def test_norms(library, data, shape, dtype, seed, offset, centered):
    """RMS and layer norm over any nonempty set of axes, in any layout, and their gradients for arbitrary statistics."""
    slots, name = {"T": dtype}, "layer_norm" if centered else "rms_norm"
    mask = data.draw(st.integers(1, 2 ** len(shape) - 1))
    strides = [strides_for(shape, **data.draw(layouts(len(shape)))) for _ in range(3)]
    null = tuple(n for n in ("gamma", "beta")[: 1 + centered] if data.draw(st.booleans()))
    problem = norm_rows.forward(
        Draw(slots, seed), shape, mask, centered=centered, x=strides[0], y=strides[1], null=null
    )
    run(library, f"{name}_{{T}}", slots, problem, offset, BOTH)
    null = tuple(n for n in ("gamma", "dgamma", "dbeta")[: 2 + centered] if data.draw(st.booleans()))
    given = dict(zip(("dy", "x", "dx"), strides))
    problem = norm_rows.backward(Draw(slots, seed), shape, mask, centered=centered, null=null, **given)
    run(library, f"{name}_backward_{{T}}", slots, problem, offset, BOTH)


@bounded
@given(st.data(), shapes(st.integers(1, 6)), dtypes, seeds, offsets, st.booleans())
def test_exclusive_scans(library, data, shape, dtype, seed, offset, reverse):
    """Exclusive scans along any axis in any layout, and their gradients."""
    function, axis = data.draw(st.sampled_from(list(scan.EXCLUSIVE))), data.draw(st.integers(0, len(shape) - 1))
    x, y = data.draw(layouts(len(shape), broadcast=True)), data.draw(layouts(len(shape)))
    slots = {"F": function, "T": dtype}
    problem = scan.forward(Draw(slots, seed), shape, axis, reverse, x=x, y=y)
    run(library, "scan_exclusive_{F}_{T}", slots, problem, offset, BOTH)
    row, make = scan.EXCLUSIVE[function]
    slots = {key: value for key, value in slots.items() if f"{{{key}}}" in row}
    views = {"x": x, "dx": y} | ({} if function == "cumsum" else {"dy": x})
    run(library, row, slots, make(Draw(slots, seed), shape, axis, reverse=reverse, **views), offset, BOTH)


# Longer than a block can cache, and than a tile of the CPU.
LONG = (131072, 2**20 + 1)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("length", LONG)
def test_long_rows(library, length, dtype):
    """A long row of each family, with a workspace and without."""
    slots, shape, seed = {"T": dtype}, (1, length), str(length)
    for function in ("sum", "max"):
        own = slots | {"F": function}
        problem = reduce_axes.over(Draw(own, seed), shape, (1,), "normal", outputs={"y": ""})
        run(library, "reduce_{F}_axes_{T}", own, problem, 0, BOTH)
    cumsum = slots | {"F": "cumsum"}
    run(library, "scan_{F}_{T}", cumsum, scan.forward(Draw(cumsum, seed), shape, 1), 0, BOTH)
    for log in ("", "log_"):
        run(library, f"{log}softmax_{{T}}", slots, softmax.forward(Draw(slots, seed), shape, 1), 0, BOTH)
    for name, centered in (("rms_norm", False), ("layer_norm", True)):
        problem = norm_rows.forward(Draw(slots, seed), shape, 2, centered=centered)
        run(library, f"{name}_{{T}}", slots, problem, 0, BOTH)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(40, 1), (40, 2), (7, 33), (5, 1025), (3, 12001), (1, 131072)])
@pytest.mark.parametrize("kind", ["normal", "equal", "spread", "alternating"])
def test_softmax_sums_to_one(library, shape, dtype, kind):
    """The sum is within 2 units in the last place of the dtype, plus the rounding of each result to it, and in f64,
    which has no wider sums, the error of a long sum."""
    slots = {"T": dtype}
    for workspace in BOTH:
        problem = softmax.forward(Draw(slots, f"{shape}"), shape, 1, kind)
        outcome = launch(library, NAMES["softmax_{T}", frozenset(slots.items())], problem, workspace=workspace)
        y = outcome.values("y").astype(np.longdouble)
        roundoff = UNIT_ROUNDOFF[dtype]
        rounded = roundoff * y.sum(1) + shape[1] * tolerances.format_of(dtype).tiny_s / 2
        summed = roundoff * tolerances.summation(shape[1]) * (dtype == "f64" and shape[1] > 1025)
        assert np.all(np.abs(y.sum(1) - 1) <= 2 * (2 * roundoff) + rounded + summed)


def test_rows_of_properties_are_in_the_table():
    assert all(any(row == name for name, _ in NAMES) for row in REDUCTIONS)
    assert {row for row, _ in scan.EXCLUSIVE.values()} <= {row.name for row, _ in OPS.values()}

# SPDX-License-Identifier: Apache-2.0
"""Functions of two and three operands on every pair of special values, over all exponents, and by algebraic identities.

8-bit operands are tried in all pairs. The identities hold for the bits of results, so they need no reference.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tolerances
from cases import Array, Draw, Problem
from cases.elementwise import binary, binary_backward, binary_integer, compare, logical, ternary
from cases.elementwise.common import strided_maker
from cases.model import special_integers
from harness import FLOATS, INTEGERS, OPS, ROWS, Launch, launch
from harness.strategies import bounded, layouts, offsets, run, seeds, shapes
from tools.oracle.numerics import (
    COMPUTE,
    DIGITS,
    LARGEST,
    LEAST,
    LIMITS,
    SMALLEST,
    SMALLEST_NORMAL,
    encode,
    round_to,
    width,
)

RANDOM = 20000
SCALE = 0.3


def rng_of(*key) -> np.random.Generator:
    return np.random.default_rng([sum(map(ord, str(k))) for k in key])


def special_values(dtype, few=False):
    """Both signs of the values that the formats treat specially, and of the numbers next to them."""
    eps, digits, large = 2.0 ** (1 - DIGITS[dtype]), DIGITS[dtype], LARGEST[dtype]
    values = [0.0, SMALLEST[dtype], SMALLEST_NORMAL[dtype], 1.0, 1 + eps, 3.0, 2.0**digits - 1, large, np.inf, np.nan]
    if not few:
        values += [2 * SMALLEST[dtype], 3 * SMALLEST[dtype], SMALLEST_NORMAL[dtype] - SMALLEST[dtype]]
        values += [SMALLEST_NORMAL[dtype] + SMALLEST[dtype], 1 - eps / 2, 0.5, 1.5, 2.0, 2.5, 0.1, 0.7, 7.0, 10.0]
        values += [2.0 ** (digits - 1) + 0.5, 2.0 ** (digits - 1) - 1, 2.0**digits, 2.0 ** (digits + 1) - 2]
        values += [large / 2, large * (1 - eps / 2), np.sqrt(large), np.sqrt(SMALLEST_NORMAL[dtype])]
    values = round_to(np.array(values), dtype)
    both = np.concatenate([values, -values])
    return np.where(np.isnan(both), np.nan, both) if dtype == "f16" else both  # a GPU's f16 loses the sign of NaN


def stratified(rng, dtype, n=RANDOM):
    """Numbers of every exponent; half of them near the previous one, so that sums cancel and quotients are small."""
    top = np.frexp(LARGEST[dtype])[1] - 1
    exponents = rng.integers(LEAST[dtype], top, (3, n), endpoint=True)
    near = exponents[0] + rng.integers(-DIGITS[dtype] - 2, DIGITS[dtype] + 2, (3, n), endpoint=True)
    exponents = np.where(rng.random((3, n)) < 0.5, near, exponents)
    values = np.ldexp(1 + rng.random((3, n)), np.clip(exponents, LEAST[dtype], top))
    return round_to(rng.choice([-1.0, 1.0], (3, n)) * np.minimum(values, LARGEST[dtype]), dtype)


def grid(*axes):
    """All combinations, one array per axis."""
    return tuple(x.ravel() for x in np.meshgrid(*axes, indexing="ij"))


def float_pairs(dtype):
    special, random = special_values(dtype), stratified(rng_of(dtype, "pairs"), dtype)
    return tuple(np.concatenate(both) for both in zip(grid(special, special), random[:2]))


def float_triples(dtype):
    special, random = special_values(dtype, few=True), stratified(rng_of(dtype, "triples"), dtype)
    return tuple(np.concatenate(each) for each in zip(grid(special, special, special), random))


def integer_pairs(dtype):
    if width(dtype) == 8:
        low, high = (0, 255) if dtype == "bool" else LIMITS[dtype]
        return grid(*[np.arange(low, high + 1)] * 2)
    rng, special = rng_of(dtype, "integers"), special_integers(dtype)
    edges = special[:: max(1, len(special) // 60)]
    edges = np.unique(np.concatenate([special[:8], edges, special[-8:], special[np.abs(special.astype(float)) < 10]]))
    low, high = LIMITS[dtype]
    random = rng.integers(low, high, (2, 4000), special.dtype, endpoint=True)
    # Values of every bit length.
    random >>= rng.integers(0, width(dtype), random.shape).astype(random.dtype)
    return tuple(np.concatenate(both) for both in zip(grid(edges, edges), random))


def pairs_of(dtype):
    return float_pairs(dtype) if dtype in FLOATS else integer_pairs(dtype)


def problem_of(op, inputs, **scalars):
    """A flat call of op on the inputs."""
    row, slots = OPS[op]
    numel = len(next(iter(inputs.values())))
    arrays = {p.name: Array(p.dtype_of(slots), (numel,), inputs.get(p.name)) for p in row.pointers}
    return Problem({"numel": numel, **scalars}, arrays, function=slots.get("F", ""))


def call(library, op, *values, **scalars):
    """The values of its single output."""
    names = [p.name for p in OPS[op][0].pointers if not p.is_output]
    outcome = launch(library, op, problem_of(op, dict(zip(names, values)), **scalars))
    assert outcome.status == 0, outcome.text
    (output,) = outcome.bits
    return outcome.values(output)


def instances(*rows):
    return [pytest.param(op, slots, id=op) for op, (row, slots) in OPS.items() if row.name in rows]


def check(library, op, case_module, values, **scalars):
    """Compares the op's outputs with the reference of its case."""
    row, _ = OPS[op]
    problem = problem_of(op, dict(zip([p.name for p in row.pointers if not p.is_output], values)), **scalars)
    case = next(c for c in case_module.CASES if c.row == row.name)
    outcome = launch(library, op, problem)
    assert outcome.status == 0, outcome.text
    for name, expected in case.reference(problem).items():
        got = outcome.values(name)
        try:
            tolerances.check(f"{op}: {name}", got, outcome.dtypes[name], expected, case.tolerance[name])
        except AssertionError as error:
            raise AssertionError(f"{error}\n{worst(got, expected, outcome.dtypes[name], values)}") from None
    return outcome


def worst(got, expected, dtype, values, most=8):
    """The elements that are furthest from the reference, with their operands."""
    ref = round_to(np.asarray(expected.value), dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got / ref - 1)
    error[~np.isfinite(error)] = np.inf
    error[(got == ref) | (np.isnan(got) & np.isnan(ref))] = 0
    return "\n".join(
        f"f({', '.join(repr(v[k].item()) for v in values)}) is {got[k].item()!r}, reference {expected.value[k]!r}"
        for k in np.argsort(-error, kind="stable")[:most]
    )


@pytest.mark.parametrize(("op", "slots"), instances(binary.ROW, binary_integer.ROW, compare.ROW, logical.ROW))
def test_pairs(library, op, slots):
    module = {
        binary.ROW: binary, binary_integer.ROW: binary_integer, compare.ROW: compare, logical.ROW: logical,
    }[OPS[op][0].name]  # fmt: skip
    check(library, op, module, pairs_of(slots["T"]))


@pytest.mark.parametrize(("op", "slots"), instances(binary.LDEXP))
def test_ldexp(library, op, slots):
    """All special values, with exponents over the whole range and far beyond."""
    ends = [-(2**31), -(2**31) + 1, 2**31 - 1, -5000, 5000, -70000, 70000]
    exponents = np.concatenate([np.arange(-2300, 2301, 1 if slots["T"] == "f64" else 2), ends])
    check(library, op, binary, grid(special_values(slots["T"]), exponents))


@pytest.mark.parametrize(("op", "slots"), instances("ternary_{F}_{T}", "ternary_{F}_{T} scaled"))
def test_triples(library, op, slots):
    scalars = {"scale": SCALE} if "scaled" in OPS[op][0].name else {}
    check(library, op, ternary, float_triples(slots["T"]), **scalars)


@pytest.mark.parametrize(("op", "slots"), instances("ternary_clamp_{T} integers"))
def test_integer_clamp(library, op, slots):
    special = special_integers(slots["T"])
    few = np.unique(np.concatenate([special[:4], special[-4:], special[np.abs(special.astype(float)) < 4]]))
    check(library, op, ternary, grid(few, few, few))


@pytest.mark.parametrize(("op", "slots"), instances(binary_backward.ROW))
def test_gradients_of_pairs(library, op, slots):
    dtype = slots["T"]
    a, b = float_pairs(dtype)
    dy = rng_of(op).choice(round_to(np.array([1.0, -0.7, 3.0]), dtype), a.shape)
    check(library, op, binary_backward, (dy, a, b))


@pytest.mark.parametrize(("op", "slots"), instances("ternary_{F}_backward_{T}", "ternary_{F}_backward_{T} scaled"))
def test_gradients_of_triples(library, op, slots):
    dtype = slots["T"]
    triples = float_triples(dtype)
    dy = rng_of(op).choice(round_to(np.array([1.0, -0.7, 3.0]), dtype), triples[0].shape)
    scalars = {"scale": SCALE} if "scaled" in OPS[op][0].name else {}
    check(library, op, ternary, (dy, *triples), **scalars)


# --- algebra ---------------------------------------------------------------------------------------------------------


def same(left, right, dtype):
    """Equal bits; NaN equals NaN."""
    nan = np.isnan(left) & np.isnan(right) if dtype in FLOATS else False
    bad = np.flatnonzero(~(nan | (encode(left, dtype) == encode(right, dtype))))
    assert bad.size == 0, f"{bad.size} differ, the first at {bad[0]}: {left[bad[0]]!r} and {right[bad[0]]!r}"


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_algebra(library, dtype):
    a, b = float_pairs(dtype)
    op = {name: f"binary_{name}_{dtype}" for name in ROWS[binary.ROW].functions}

    def f(name, *values):
        return call(library, op[name], *values)

    for name in ("add", "mul", "minimum", "maximum", "fmin", "fmax"):
        same(f(name, a, b), f(name, b, a), dtype)
    finite = np.isfinite(a)
    same(f("sub", a, a)[finite], np.zeros(finite.sum()), dtype)
    same(f("sub", a, b), f("add", a, np.where(np.isnan(b), b, -b)), dtype)
    same(f("copysign", f("copysign", a, b), a), a, dtype)
    assert (np.signbit(f("copysign", a, b)) == np.signbit(b))[~np.isnan(a)].all()
    same(f("maximum", a, b), -f("minimum", -a, -b), dtype)
    same(f("fmax", a, b), -f("fmin", -a, -b), dtype)
    same(f("hypot", a, b), f("hypot", -a, np.abs(b)), dtype)
    same(f("atan2", -a, b), -f("atan2", a, b), dtype)
    one = np.ones_like(a)
    same(f("pow", a, 0 * one), one, dtype)
    same(f("pow", one, b), one, dtype)
    if dtype != "f64" or library.backend == "cpu":  # CUDA's pow of f64 errs by up to 2 units
        same(f("pow", a, one), a, dtype)
    same(f("div", a, one), a, dtype)
    same(f("div", a, -one), -a, dtype)
    up = f("nextafter", a, np.inf * one)
    back = np.isfinite(a) & np.isfinite(up)
    same(f("nextafter", up, -np.inf * one)[back] + 0.0, a[back] + 0.0, dtype)
    assert (up[finite] > a[finite]).all()
    steps = np.abs(encode(np.abs(up[back]), dtype).astype(np.int64) - encode(np.abs(a[back]), dtype).astype(np.int64))
    assert (steps[a[back] != 0] == 1).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_division_with_remainder(library, dtype):
    """a is floor_divide(a, b) b + mod(a, b) exactly, and the remainder lies between 0 and b."""
    rng, limit, n = rng_of(dtype, "rest"), 2 ** (DIGITS[dtype] - 1), 5000
    # multiples of one number, so that quotient and remainder have no more digits than a
    unit = 2.0 ** rng.integers(-3, 3, n)
    a = rng.integers(-limit, limit, n) * unit
    b = rng.integers(1, 2 ** (DIGITS[dtype] // 2), n) * rng.choice([-1.0, 1.0], n) * unit
    quotient = call(library, f"binary_floor_divide_{dtype}", a, b)
    modulo = call(library, f"binary_mod_{dtype}", a, b)
    assert (quotient.astype(np.longdouble) * b + modulo == a).all()
    assert (np.abs(modulo) < np.abs(b)).all()
    assert (np.signbit(modulo) == np.signbit(b)).all()
    remainder = call(library, f"binary_remainder_{dtype}", a, b)
    assert (np.signbit(remainder) == np.signbit(a)).all()
    difference = modulo - remainder
    assert ((difference == 0) | (difference == b)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_algebra(library, dtype):
    a, b = float_pairs(dtype)
    op = f"ternary_fma_{dtype}"
    same(call(library, op, a, b, np.full_like(a, -0.0)), call(library, f"binary_mul_{dtype}", a, b), dtype)
    one = np.ones_like(a)
    same(call(library, op, a, one, b), call(library, f"binary_add_{dtype}", a, b), dtype)
    same(call(library, op, b, -one, a), call(library, f"binary_sub_{dtype}", a, b), dtype)
    # the rounding error of a product
    product = call(library, f"binary_mul_{dtype}", a, b)
    lost = call(library, op, a, b, -product)
    kept = np.isfinite(product) & (np.abs(product) > SMALLEST_NORMAL[dtype] * 2.0 ** (2 * DIGITS[dtype]))
    exact = a[kept].astype(np.longdouble) * b[kept] - product[kept] if dtype != "f64" else None
    if exact is not None:
        same(lost[kept] + 0.0, exact.astype(np.float64) + 0.0, dtype)
    assert (np.abs(lost[kept]) <= np.abs(product[kept]) * 2.0 ** -DIGITS[dtype]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp_algebra(library, dtype):
    rng, op = rng_of(dtype, "ldexp"), f"binary_ldexp_{dtype}"
    a = round_to(rng.standard_normal(5000), dtype)
    k = rng.integers(-8, 8, 5000, endpoint=True)
    a = np.where(np.abs(a) < 2.0**-5, 1.0, a)
    scaled = call(library, op, a, k)
    same(call(library, op, scaled, -k), a, dtype)
    same(scaled, call(library, f"binary_mul_{dtype}", a, 2.0**k), dtype)
    same(scaled, call(library, f"binary_div_{dtype}", a, 2.0**-k), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp_gradients_beyond_the_range(library, dtype):
    """Summands have the range of the compute type: they are infinite where it overflows, whatever would cancel them."""
    op, top = f"binary_ldexp_backward_{dtype}_strided", 1024 if dtype == "f64" else 128
    rng = rng_of(dtype, "terms")
    pairs = [
        ([1.0, -1.0], [top, top - 1]),
        ([-1.0, 1.0], [top, top - 1]),
        ([1.0, 0.5], [top - 1, top]),
        ([1, 1], [-top, 3]),
    ]
    pairs += [(rng.choice([1.0, -1.5, 0.5], 2), rng.integers(-top - 40, top + 40, 2)) for _ in range(200)]
    for dy, b in pairs:
        dy, b = np.array(dy, np.float64), np.array(b, np.int64)
        arrays = {
            "dy": Array(dtype, (2,), dy, (1,)),
            "b": Array("i32", (2,), b, (1,)),
            "da": Array(dtype, (2,), None, (0,)),
        }
        host = {"shape": (2,), **{f"stride_{name}": array.strides for name, array in arrays.items()}}
        outcome = launch(library, op, Problem({"numel": 2, "rank": 1}, arrays, host))
        assert outcome.status == 0, outcome.text
        with np.errstate(all="ignore"):
            summands = round_to(np.ldexp(dy, b.astype(np.int32)), COMPUTE[dtype])
            total = round_to(summands.sum(keepdims=True), dtype)
        np.testing.assert_array_equal(outcome.values("da")[:1], total, f"dy = {dy}, b = {b}")


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, "bool"))
def test_comparisons_agree(library, dtype):
    a, b = pairs_of(dtype)
    eq, ne, gt, ge, lt, le = (
        call(library, f"binary_cmp_{name}_{dtype}", a, b).astype(bool) for name in ("eq", "ne", "gt", "ge", "lt", "le")
    )
    ordered = ~(np.isnan(a) | np.isnan(b)) if dtype in FLOATS else np.ones(a.shape, bool)
    assert (eq == ~ne).all()
    assert (gt.astype(int) + eq + lt == ordered).all()
    assert (ge == gt | eq).all()
    assert (le == lt | eq).all()
    assert (call(library, f"binary_cmp_gt_{dtype}", b, a) == lt).all()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_algebra(library, dtype):
    a, b = integer_pairs(dtype)
    whole, w, low = a.dtype, width(dtype), LIMITS[dtype][0]

    def f(name, *values):
        return call(library, f"binary_{name}_{dtype}", *values)

    for name in ("add", "mul", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor"):
        same(f(name, a, b), f(name, b, a), dtype)
    zero = np.zeros_like(a)
    same(f("sub", a, a), zero, dtype)
    same(f("sub", f("add", a, b), b), a, dtype)
    same(f("bitwise_xor", f("bitwise_xor", a, b), b), a, dtype)
    same(f("add", f("bitwise_and", a, b), f("bitwise_or", a, b)), f("add", a, b), dtype)
    same(f("add", f("minimum", a, b), f("maximum", a, b)), f("add", a, b), dtype)
    divides = b != 0
    for quotient, remainder in (("floor_divide", "mod"), ("div", "remainder")):
        same(f("add", f("mul", f(quotient, a, b), b), f(remainder, a, b))[divides], a[divides], dtype)
        same(f(quotient, a, zero), zero, dtype)
        same(f(remainder, a, zero), zero, dtype)
    count = rng_of(dtype, "shift").integers(0, w, a.shape).astype(whole)
    power = f("bitwise_left_shift", zero + whole.type(1), count)
    same(f("bitwise_left_shift", a, count), f("mul", a, power), dtype)
    same(f("pow", zero + whole.type(2), count), power, dtype)
    fits = count < w - (1 if low else 0)
    same(f("bitwise_right_shift", a, count)[fits], f("floor_divide", a, power)[fits], dtype)
    far = count + whole.type(w)
    far = np.where(far > LIMITS[dtype][1], LIMITS[dtype][1], far).astype(whole)
    same(f("bitwise_left_shift", a, far), zero, dtype)
    same(f("bitwise_right_shift", a, far), np.where(a < 0, -1, 0).astype(whole), dtype)
    same(f("pow", a, zero + whole.type(3)), f("mul", f("mul", a, a), a), dtype)
    m, n = np.abs(count), np.abs(count[::-1])
    same(f("mul", f("pow", a, m), f("pow", a, n)), f("pow", a, m + n), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient_shares(library, dtype):
    """The gradients of an extremum's operands add up to dy, and the sign of a zero does not matter."""
    a, b = stratified(rng_of(dtype, "shares"), dtype)[:2]
    b = np.where(rng_of(dtype, "ties").random(b.shape) < 0.3, a, b)
    dy = np.full_like(a, 2.5)
    for name in ("minimum", "maximum", "fmin", "fmax"):
        op = f"binary_{name}_backward_{dtype}"
        outcome = launch(library, op, problem_of(op, {"dy": dy, "a": a, "b": b}))
        assert (outcome.values("da") + outcome.values("db") == dy).all()
        assert (outcome.values("da")[a == b] == 1.25).all()
        zeros = np.array([0.0, -0.0])
        signed = problem_of(op, {"dy": dy[:2], "a": zeros, "b": zeros[::-1]})
        assert (launch(library, op, signed).values("da") == 1.25).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_array_for_all(library, dtype):
    """Both inputs and the output may be one array."""
    a, _ = float_pairs(dtype)
    for name in ("add", "div", "pow", "mod"):
        op = f"binary_{name}_{dtype}"
        problem = problem_of(op, {"a": a, "b": a})
        apart = launch(library, op, problem)
        together = Launch(library, op, problem, alias={"b": "a", "y": "a"})
        assert together.run() == 0
        together.memory.synchronize()
        tolerances.check_bits(op, together.buffers["y"].bits(), apart.bits["y"], dtype)
    op = f"binary_mul_backward_{dtype}"
    problem = problem_of(op, {"dy": a, "a": a[::-1].copy(), "b": np.roll(a, 1)})
    apart, together = launch(library, op, problem), launch(library, op, problem, alias={"da": "dy", "db": "a"})
    for name in ("da", "db"):
        tolerances.check_bits(op, together.bits[name], apart.bits[name], dtype)


# --- strides ---------------------------------------------------------------------------------------------------------

# row -> dtypes, functions; one or two functions of each kind of loop
STRIDED = {
    "binary_{F}_{T}_strided": (FLOATS, ("sub", "div", "minimum", "pow")),
    "binary_{F}_{T}_strided integers": (INTEGERS, ("sub", "mod")),
    "binary_{F}_{T}_strided bool": (("bool",), ("logical_xor",)),
    "binary_cmp_{F}_{T}_strided": ((*FLOATS, *INTEGERS, "bool"), ("lt",)),
    "binary_ldexp_{T}_strided": (FLOATS, ("",)),
    "ternary_{F}_{T}_strided": (FLOATS, ("clamp", "fma")),
    "ternary_{F}_{T}_strided scaled": (FLOATS, ("addcmul",)),
    "binary_{F}_backward_{T}_strided": (FLOATS, ("mul", "hypot", "maximum")),
    "binary_{F}_backward_{T}_strided linear": (FLOATS, ("sub",)),
    "binary_ldexp_backward_{T}_strided": (FLOATS, ("",)),
    "ternary_{F}_backward_{T}_strided": (FLOATS, ("clamp", "fma")),
    "ternary_{F}_param_backward_{T}_strided scaled": (FLOATS, ("addcdiv",)),
}


@bounded
@given(st.data(), st.sampled_from(list(STRIDED)), seeds, offsets)
def test_strides(library, data, row, seed, offset):
    """Any rank, axes permuted, sliced, reversed and broadcast. Gradients with stride 0 along an axis are summed over
    it, and some are not wanted."""
    dtypes, functions = STRIDED[row]
    slots = {"T": data.draw(st.sampled_from(dtypes)), "F": data.draw(st.sampled_from(functions))}
    slots = {k: v for k, v in slots.items() if v}
    gradients = tuple(p.name for p in ROWS[row].pointers if p.is_output and ROWS[row].workspace)
    optional = [p.name for p in ROWS[row].pointers if p.is_pointer and not p.is_required]
    null = tuple(name for name in optional if data.draw(st.integers(0, 4)) == 0)
    shape = data.draw(shapes())
    views = {
        p.name: data.draw(layouts(len(shape), broadcast=not p.is_output or p.name in gradients))
        for p in ROWS[row].pointers
    }
    make = strided_maker(row, binary.fill, **({"scale": SCALE} if "scaled" in row else {}))
    problem = make(Draw(slots, seed), shape, "normal", null, **views)
    run(library, row, slots, problem, offset, (None, "full") if ROWS[row].workspace else (None,))

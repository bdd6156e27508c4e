# SPDX-License-Identifier: Apache-2.0
"""Every cast on every value of an 8- or 16-bit source, and on the values around each rounding boundary of a wider one.

Bits are compared here, which the case table's float64 values cannot do: payloads of NaN, and 64-bit integers.
"""

import functools

import numpy as np
import pytest

from cases import Array, Problem, strides_for
from harness import Launch
from tools.oracle import casts
from tools.oracle.casts import DTYPES, EXACT, FLOATS
from tools.oracle.numerics import INTEGERS, PACKED

RANDOM = 4000
WIDE = tuple(d for d in (*FLOATS, *INTEGERS) if casts.width(d) > 2)


def generator(*names):
    return np.random.default_rng([ord(letter) for letter in "-".join(names)])


def whole_range(dtype):
    return np.arange(2 ** (8 * casts.width(dtype))).astype(casts.unsigned(dtype))


@functools.cache
def representable(target):
    """Values of a float format, ascending: all that are not negative of a short one, some of a long one."""
    if target not in ("f32", "f64"):
        values = casts.exact_values(whole_range(target), target)
        return np.unique(values[np.isfinite(values) & ~np.signbit(values)])
    digits, least, largest = casts.FORMATS[target]
    rng = generator(target)
    exponents = np.concatenate([rng.integers(-2, 65, RANDOM), rng.integers(least - digits, -least, RANDOM)])
    values = np.ldexp(rng.random(2 * RANDOM).astype(EXACT) + 1, exponents)
    return np.unique(np.append(casts.rounded(values, target), EXACT(largest)))


@functools.cache
def rounding_boundaries(target):
    """Reals at which the result changes: the values of the target, and the midpoints between them."""
    if target in FLOATS:
        digits, least, _ = casts.FORMATS[target]
        values = representable(target)
        _, exponent = np.frexp(values)
        half_step = np.ldexp(EXACT(0.5), np.maximum(exponent - 1, least) - (digits - 1))
        points = np.concatenate([values, values + half_step, [EXACT(0)]])
    elif target in PACKED:
        points = np.arange(0, 40).astype(EXACT) / 2
    else:
        powers = np.ldexp(EXACT(1), np.arange(66))
        points = np.concatenate([p + powers for p in (-1, -0.5, 0, 0.5, 1)] + [np.arange(0, 20).astype(EXACT) / 4])
    return np.concatenate([points, -points])


@functools.cache
def inputs(source, target):
    """Bits of a source: all patterns of a short one; else random ones, the rounding boundaries and their neighbours."""
    if source not in WIDE:
        return whole_range(source)
    rng, points = generator(source, target), rounding_boundaries(target)
    if source in FLOATS:
        near = casts.float_bits(casts.rounded(points, source), source)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e20, 1e-20, 3e9, -129.3, 300.7])
        special = casts.float_bits(special.astype(EXACT), source)
    else:
        info = np.iinfo(casts.NUMPY[source])
        near = casts.clamped(np.rint(points), info.min, info.max).view(np.uint64).astype(casts.unsigned(source))
        special = np.array([info.min, info.max], casts.NUMPY[source]).view(casts.unsigned(source))
    bits = rng.integers(0, 256, RANDOM * casts.width(source), np.uint8).view(casts.unsigned(source))
    if source in INTEGERS:  # of every bit length
        bits = np.concatenate([bits, bits >> rng.integers(0, 8 * casts.width(source), RANDOM).astype(bits.dtype)])
    one = bits.dtype.type(1)
    return np.concatenate([special, bits, near, near + one, near - one])


def run(library, op, scalars, host, arrays, bits, **options):
    """The bits of y for those of x."""
    prepared = Launch(library, op, Problem(scalars, arrays, host), **options)
    prepared.buffers["x"].set_bits(bits)
    outcome = prepared.outcome(prepared.run())
    assert outcome.status == 0, outcome.text
    return outcome.bits["y"]


def run_flat(library, op, bits, source, target, **options):
    arrays = {"x": Array(source, bits.shape), "y": Array(target, bits.shape)}
    return run(library, op, {"numel": bits.size}, {}, arrays, bits, **options)


def run_strided(library, op, bits, source, target):
    """Bits of shape (rows, columns); x is transposed and y has gaps."""
    strides = {"x": strides_for(bits.shape, order=(1, 0)), "y": strides_for(bits.shape, pad=3, flip=(0,))}
    arrays = {name: Array(d, bits.shape, None, strides[name]) for name, d in (("x", source), ("y", target))}
    host = {"shape": bits.shape, "stride_x": strides["x"], "stride_y": strides["y"]}
    return run(library, op, {"numel": bits.size, "rank": 2}, host, arrays, bits)


def check(op, bits, got, want, target, *, moved=False):
    wrong = np.flatnonzero(casts.differ(got.reshape(-1), want.reshape(-1), target, moved=moved))
    if wrong.size:
        shown = [f"{int(bits[i]):#x} -> {int(got.reshape(-1)[i]):#x}, not {int(want[i]):#x}" for i in wrong[:5]]
        raise AssertionError(f"{op}: {wrong.size} of {bits.size} are wrong: {'; '.join(shown)}")


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_cast(library, source, target):
    op, bits = f"cast_{source}_{target}", inputs(source, target)
    want = casts.cast(bits, source, target)
    moved = source == target
    check(op, bits, run_flat(library, op, bits, source, target, offset=3), want, target, moved=moved)
    columns = 16
    few = bits[: min(bits.size, 65536) // columns * columns]
    got = run_strided(library, f"{op}_strided", few.reshape(-1, columns), source, target)
    check(f"{op}_strided", few, got, want[: few.size], target, moved=moved)


def test_casts_in_place(library):
    """y may alias x if elements have one size: each value is read before it is overwritten."""
    for source in DTYPES:
        for target in (d for d in DTYPES if casts.width(d) == casts.width(source)):
            op, bits = f"cast_{source}_{target}", inputs(source, target)[:10000]
            got = run_flat(library, op, bits, source, target, alias={"y": "x"})
            check(op, bits, got, casts.cast(bits, source, target), target, moved=source == target)


def test_packed_casts_in_place(library):
    for source in PACKED:
        for target in PACKED:
            op, halves = f"cast_{source}_{target}", casts.nibbles(whole_range("u8"))
            got = run_flat(library, op, halves, source, target, alias={"y": "x"})
            check(op, halves, got, casts.nibbles(casts.repack(whole_range("u8"), source, target)), target)


@pytest.mark.parametrize("source", PACKED)
def test_unpack(library, source):
    """Every pair of adjacent nibbles."""
    packed = whole_range("u8")
    for target in DTYPES:
        op, halves = f"cast_{source}_{target}", casts.nibbles(packed)
        for offset in (0, 1):
            got = run_flat(library, op, halves, source, target, offset=offset)
            check(op, halves, got, casts.unpack(packed, source, target), target)


@pytest.mark.parametrize("source", DTYPES)
def test_pack(library, source):
    """Every value in either half of a byte, beside another each time."""
    for target in PACKED:
        op, bits = f"cast_{source}_{target}", inputs(source, target)
        bits = bits[: bits.size // 2 * 2]
        for order in (bits, np.roll(bits, 1), bits[::-1].copy()):
            got = run_flat(library, op, order, source, target, offset=order is not bits)
            check(op, order, got, casts.nibbles(casts.pack(order, source, target)), target)


@pytest.mark.parametrize("source", PACKED)
@pytest.mark.parametrize("target", PACKED)
def test_repack(library, source, target):
    packed = whole_range("u8")
    op, halves = f"cast_{source}_{target}", casts.nibbles(packed)
    for offset in (0, 1):
        got = run_flat(library, op, halves, source, target, offset=offset)
        check(op, halves, got, casts.nibbles(casts.repack(packed, source, target)), target)


def test_lengths(library):
    """Packed casts that end within a vector, whatever its width."""
    for numel in (*range(2, 70, 2), 126, 130, 1022, 4098):
        bits = np.resize(whole_range("u8"), numel)
        for op, source, target, want in (
            ("cast_i8_s4", "i8", "s4", casts.nibbles(casts.pack(bits, "i8", "s4"))),
            ("cast_s4_u4", "s4", "u4", casts.nibbles(casts.repack(bits[: numel // 2], "s4", "u4"))),
            ("cast_u4_f32", "u4", "f32", casts.unpack(bits[: numel // 2], "u4", "f32")),
        ):
            given = bits if source == "i8" else casts.nibbles(bits[: numel // 2])
            check(op, given, run_flat(library, op, given, source, target), want, target)

# SPDX-License-Identifier: Apache-2.0
"""Float-coded formats against ml_dtypes, bit for bit, and what harness and cases do not know of them."""

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from tools.oracle import low_floats
from tools.oracle.code_books import NF4

TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e4m3_fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2_fnuz": ml_dtypes.float8_e5m2fnuz, "e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
COUNT = {"e2m1": 16, "e2m3": 64, "e3m2": 64}


def called(name, library, *arrays, **numbers):
    """A function on arrays in the library's memory."""
    found = getattr(bk, name)(*[None if a is None else bk.upload(a, library=library) for a in arrays], **numbers)
    many = found if isinstance(found, tuple) else (found,)
    made = [bk.download(each) for each in many]
    return made if isinstance(found, tuple) else made[0]


def near(values):
    """Values, f32 midpoints of neighbours and the f32 on both sides."""
    table = np.unique(values[np.isfinite(values)]).astype(np.float64)
    found = np.concatenate([table, (table[1:] + table[:-1]) / 2]).astype(np.float32)
    with np.errstate(over="ignore"):
        return np.concatenate(
            [found, np.nextafter(found, np.float32(np.inf)), np.nextafter(found, np.float32(-np.inf))]
        )


@pytest.mark.parametrize("name", TYPES)
def test_every_code_has_the_value_of_ml_dtypes(library, name):
    codes = np.arange(COUNT.get(name, 256), dtype=np.uint8)
    want = codes.view(TYPES[name]).astype(np.float32)
    got = called("decode_floats", library, codes, float_format=name)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))
    np.testing.assert_array_equal(low_floats.values(name).astype(np.float32), want)


@pytest.mark.parametrize("name", [name for name in TYPES if name != "e8m0"])
def test_rounding_is_that_of_ml_dtypes(library, name):
    """Rounding agrees in the range where nothing saturates."""
    table = np.arange(COUNT.get(name, 256), dtype=np.uint8).view(TYPES[name]).astype(np.float32)
    most = np.nanmax(np.where(np.isinf(table), np.nan, table))
    x = near(table)
    x = x[np.abs(x) <= most]
    got = called("encode_floats", library, x, float_format=name)
    np.testing.assert_array_equal(got, x.astype(TYPES[name]).view(np.uint8))


@pytest.mark.parametrize("name", TYPES)
def test_what_saturates(library, name):
    x = np.array([np.inf, -np.inf, 3e38, -3e38, np.nan], np.float32)
    back = called("decode_floats", library, called("encode_floats", library, x, float_format=name), float_format=name)
    table = low_floats.values(name)
    most = table[np.isfinite(table)].max()
    sign = np.array([1, 1, 1, 1] if name == "e8m0" else [1, -1, 1, -1])
    if name != "e8m0":
        np.testing.assert_array_equal(back[:4], sign * most)
    else:
        np.testing.assert_array_equal(back[:2], most)
    assert np.isnan(back[4]) == np.isnan(table).any() or back[4] == most


def test_powers_of_two_round_to_the_nearest(library):
    x = np.array([1.0, 1.4, 1.5, 1.6, 3.0, 2.9, 0.0, 2.0**-127, 2.0**-126], np.float32)
    got = called("encode_floats", library, x, float_format="e8m0")
    np.testing.assert_array_equal(got, [127, 127, 128, 128, 128, 128, 0, 0, 1])


@pytest.mark.parametrize("form", ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"])
def test_a_block_is_restored_within_half_a_step(library, form, rng):
    """Rule ceil: nothing saturates, so that the error is that of one rounding."""
    x = rng.standard_normal((64, 128)).astype(np.float32) * np.exp2(rng.integers(-40, 40, (64, 1))).astype(np.float32)
    codes, scales = called("quantize_mx", library, x, mx_format=form, scale_rule="ceil")
    y = called("dequantize_mx", library, codes, scales, mx_format=form)
    largest = np.abs(x.reshape(64, 4, 32)).max(-1, keepdims=True)
    digits = {"mxfp4": 1, "mxfp6_e2m3": 3, "mxfp6_e3m2": 2, "mxfp8_e4m3": 3, "mxfp8_e5m2": 2, "mxint8": 6}[form]
    error = np.abs(y - x).reshape(64, 4, 32)
    assert (error <= largest * 2.0 ** -(digits + 1)).all()


def test_scale_rules_of_a_known_block(library):
    """Largest magnitudes of e2m1 blocks, OCP's example of its rules: floor(log2 7) - 2 is 0, and 7 saturates to 6."""
    known = [(6.0, 127, 127, 127), (7.0, 127, 128, 128), (6.9, 127, 128, 127), (8.0, 128, 128, 128)]
    known += [(4.0, 127, 127, 127), (3.5, 126, 127, 127), (3.0, 126, 126, 126)]
    for largest, floor, ceil, rounded in known:
        x = np.zeros((1, 32), np.float32)
        x[0, 5] = -largest
        for rule, want in (("floor", floor), ("ceil", ceil), ("round", rounded)):
            _, scales = called("quantize_mx", library, x, mx_format="mxfp4", scale_rule=rule)
            assert scales[0, 0] == want, (largest, rule)


def test_scales_swizzled_and_back(library, rng):
    scales = rng.integers(0, 256, (300, 13)).astype(np.uint8)
    tiles = bk.empty((384, 16), bk.u8, library=library)
    plan = bk.SwizzleScalesPlan.select(None, bk.SwizzleScalesDescriptor(300, 13, element=bk.u8), library=library)
    plan.run(None, None, bk.SwizzleScalesArgs(x=bk.upload(scales, library=library), y=tiles))
    memory = bk.download(tiles).reshape(-1)
    for row, column in ((0, 0), (1, 0), (32, 1), (127, 3), (128, 0), (299, 12), (200, 7)):
        tile = row // 128 * 4 + column // 4
        assert memory[tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4] == scales[row, column]
    back = bk.empty((300, 13), bk.u8, library=library)
    plan = bk.SwizzleScalesPlan.select(None, bk.SwizzleScalesDescriptor(300, 13, True, element=bk.u8), library=library)
    plan.run(None, None, bk.SwizzleScalesArgs(x=tiles, y=back))
    np.testing.assert_array_equal(bk.download(back), scales)


def test_nf4_of_the_values_of_the_book(library):
    """The book itself is exact, code by code, in bitsandbytes' order of nibbles."""
    codes, absmax = called("quantize_4bit", library, NF4.astype(np.float32) * 3, block_size=16)
    np.testing.assert_array_equal(codes, [16 * (2 * i) + 2 * i + 1 for i in range(8)])
    np.testing.assert_array_equal(absmax, [3])
    got = called("dequantize_4bit", library, codes, absmax, block_size=16)
    np.testing.assert_array_equal(got, NF4.astype(np.float32) * np.float32(3))


def test_double_quantisation(library, rng):
    """absmax in eight bits costs less than 1 % of it, and products use the same weights."""
    w = rng.standard_normal(256 * 512).astype(np.float32)
    codes, absmax = bk.quantize_4bit(bk.upload(w, library=library))
    steps = bk.upload(bk.dynamic_map(), library=library)
    nested = bk.compress_absmax(absmax, steps)
    plain = bk.download(bk.dequantize_4bit(codes, absmax))
    made = bk.dequantize_4bit(codes, None, nested[0], steps, nested[1], nested[2])
    assert np.abs(bk.download(made) - plain).max() < 0.02 * np.abs(plain).max()
    x = rng.standard_normal((3, 512)).astype(np.float32)
    y = bk.gemv_4bit(bk.upload(x, library=library), codes, 256, None, nested[0], steps, nested[1], nested[2])
    want = x.astype(np.float64) @ bk.download(made).reshape(256, 512).T.astype(np.float64)
    np.testing.assert_allclose(bk.download(y), want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_rows_of_a_product_do_not_depend_on_the_others(library, rng):
    codes = bk.upload(rng.integers(0, 256, 40 * 128).astype(np.uint8), library=library)
    absmax = bk.upload(rng.random(160).astype(np.float32), library=library)
    x = rng.standard_normal((19, 256)).astype(np.float32)
    whole = bk.download(bk.gemv_4bit(bk.upload(x, library=library), codes, 40, absmax))
    for row in (0, 7, 8, 18):
        one = bk.download(bk.gemv_4bit(bk.upload(x[row : row + 1], library=library), codes, 40, absmax))
        np.testing.assert_array_equal(one[0], whole[row])


def test_the_map_of_bitsandbytes():
    steps = bk.dynamic_map()
    assert steps.shape == (256,) and (np.diff(steps) > 0).all()
    assert steps[-1] == 1 and 0 in steps and np.isclose(steps[0], -0.9929688)
    unsigned = bk.dynamic_map(signed=False)
    assert unsigned.shape == (256,) and unsigned[0] == 0 and (np.diff(unsigned) >= 0).all()


# --- transcoders ---


def mxfp4(rng, rows=130, n=256, low=120, high=126):
    codes = rng.integers(0, 256, (rows, n // 2)).astype(np.uint8)
    scales = rng.integers(low, high, (rows, n // 32)).astype(np.uint8)
    wide = low_floats.dequantize_mx(low_floats.unpack(codes, 4), scales.astype(int), 0)
    return codes, scales, wide


def test_mxfp4_to_nvfp4_keeps_every_value(rng):
    codes, scales, wide = mxfp4(rng, low=100, high=118)
    codes[3, :16] = 0x80  # zeros of both signs, whose scale does not matter
    scales[3, 0] = 254
    wide = low_floats.dequantize_mx(low_floats.unpack(codes, 4), scales.astype(int), 0)
    made = bk.mxfp4_to_nvfp4(codes, scales)
    np.testing.assert_array_equal(made[0], codes)
    got = low_floats.dequantize_mx(low_floats.unpack(made[0], 4), made[1].astype(int), 6, made[2][0])
    np.testing.assert_array_equal(got, wide)
    scales[0, 0], scales[1, 1], codes[:2] = 100, 118, 0x77
    with pytest.raises(bk.InvalidProblemError, match="more than 17 apart"):
        bk.mxfp4_to_nvfp4(codes, scales)
    scales[0, 0] = 255
    with pytest.raises(bk.InvalidProblemError, match="NaN"):
        bk.mxfp4_to_nvfp4(codes, scales)


def test_mxfp4_to_fp8_blocks_keeps_every_value(rng):
    codes, scales, wide = mxfp4(rng, low=100, high=115)
    y, scale = bk.mxfp4_to_fp8_blocks(codes, scales)
    values = y.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    each = np.repeat(np.repeat(scale, 128, 0), 128, 1)[: y.shape[0], : y.shape[1]]
    np.testing.assert_array_equal(values * each, wide)
    scales[0, 0], scales[1, 1], codes[:2] = 100, 116, 0x11
    with pytest.raises(bk.InvalidProblemError, match="more than 14"):
        bk.mxfp4_to_fp8_blocks(codes, scales)


def test_zero_points_of_gptq():
    rule = bk.ZeroPointRule
    np.testing.assert_array_equal(bk.gptq_zero_points([0, 7, 14], rule.V1, rule.V2), [1, 8, 15])
    np.testing.assert_array_equal(bk.gptq_zero_points([1, 8, 15], rule.V2, rule.V1), [0, 7, 14])
    for stored, of, to in (([15], rule.V1, rule.V2), ([0], rule.V2, rule.V1)):
        with pytest.raises(bk.InvalidProblemError, match="four bits"):
            bk.gptq_zero_points(stored, of, to)
    with pytest.raises(bk.InvalidProblemError, match="0 to 15"):
        bk.gptq_zero_points([16], rule.V1, rule.V2)
    with pytest.raises(bk.InvalidProblemError, match="must be a ZeroPointRule"):
        bk.gptq_zero_points([1], "v1", rule.V2)


def words(codes, axis, order=range(8)):
    """Words of 32 bits, eight codes each."""
    moved = np.moveaxis(codes, axis, -1)
    eights = moved.reshape(*moved.shape[:-1], -1, 8)[..., list(order)].astype(np.int64)
    made = (eights << (4 * np.arange(8))).sum(-1)
    return np.moveaxis((made - ((made >> 31) << 32)).astype(np.int32), -1, axis)


def test_checkpoints_of_gptq_and_awq(rng):
    q, z = rng.integers(0, 16, (256, 64)), rng.integers(1, 16, (2, 64))
    codes, zeros, order = bk.gptq_checkpoint(words(q, 0), words(z - 1, 1), rule=bk.ZeroPointRule.V1)
    np.testing.assert_array_equal(codes, q)
    np.testing.assert_array_equal(zeros, z)
    np.testing.assert_array_equal(order, np.arange(256))
    _, zeros, _ = bk.gptq_checkpoint(words(q, 0), words(z, 1), rule=bk.ZeroPointRule.V2)
    np.testing.assert_array_equal(zeros, z)
    g_idx = rng.permutation(np.repeat([0, 1], 128))
    codes, _, order = bk.gptq_checkpoint(words(q, 0), words(z, 1), rule=bk.ZeroPointRule.V2, g_idx=g_idx)
    np.testing.assert_array_equal(codes, q[order])
    np.testing.assert_array_equal(g_idx[order], np.repeat([0, 1], 128))
    codes, zeros = bk.awq_checkpoint(words(q, 1, (0, 2, 4, 6, 1, 3, 5, 7)), words(z, 1, (0, 2, 4, 6, 1, 3, 5, 7)))
    np.testing.assert_array_equal(codes, q)
    np.testing.assert_array_equal(zeros, z)
    with pytest.raises(bk.InvalidProblemError, match="each of 2 groups 128 times"):
        bk.gptq_checkpoint(words(q, 0), words(z, 1), rule=bk.ZeroPointRule.V2, g_idx=np.zeros(256, int))
    with pytest.raises(bk.InvalidProblemError, match="32-bit integers"):
        bk.awq_checkpoint(q, words(z, 1))


@pytest.mark.parametrize("rows", [1, 16, 17, 40])
@pytest.mark.parametrize("book", ["nf4", "fp4"])
def test_linear_4bit(library, rows, book):
    """Few rows are multiplied by the codes, more by the decoded weights."""
    rng = np.random.default_rng(5)
    w, x, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((20, 96), (2, rows, 96), (20,)))
    codes, absmax = called("quantize_4bit", library, w, book=book)
    decoded = called("dequantize_4bit", library, codes, absmax, book=book).reshape(20, 96)
    got = called("linear_4bit", library, x, codes, absmax, None, None, None, None, bias, n=20, book=book)
    np.testing.assert_allclose(got, x @ decoded.T + bias, rtol=1e-4, atol=1e-4)

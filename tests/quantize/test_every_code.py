# SPDX-License-Identifier: Apache-2.0
"""Every code with every scale of the small formats, decoded, and multiplied by unit vectors, which gives the same."""

import numpy as np
import pytest

import baracuda as bk
from tools.oracle import low_floats
from tools.oracle.block_formats import FORMATS, decoded

# Format -> bytes of a block's codes from `at` on, in which every code comes once or more, and the bytes of its scale.
F16_SCALES = {"q4_0": 2, "q5_0": 6, "iq4_nl": 2}


def called(name, library, *arrays, **numbers):
    arrays = [None if a is None else bk.upload(a, library=library) for a in arrays]
    return bk.download(getattr(bk, name)(*arrays, **numbers))


def same(got, want):
    np.testing.assert_array_equal(got, want)  # NaN where there is NaN
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def half_blocks(name, codes):
    """Blocks with each f16 as a scale and the same codes; q5_0 has its fifth bits set for every second value."""
    chosen = FORMATS[name]
    data = np.zeros((65536, chosen.bytes), np.uint8)
    data[:, :2] = np.arange(65536, dtype=np.uint16)[:, None].view(np.uint8)
    data[:, 2 : F16_SCALES[name]] = 0xAA
    data[:, F16_SCALES[name] :] = codes
    return data


def narrow_blocks(name):
    """mxfp4 and nvfp4: each scale with all codes."""
    chosen = FORMATS[name]
    data = np.zeros((256, chosen.bytes), np.uint8)
    count = {"mxfp4": 1, "nvfp4": 4}[name]
    data[:, :count] = np.arange(256, dtype=np.uint8)[:, None]
    data[:, count:] = np.resize(np.arange(16, dtype=np.uint8) * 17, chosen.bytes - count)
    return data


def blocks_of(name):
    if name in F16_SCALES:
        return half_blocks(name, np.arange(16, dtype=np.uint8) | np.arange(16, dtype=np.uint8)[::-1] << 4)
    return narrow_blocks(name)


SMALL = (*F16_SCALES, "mxfp4", "nvfp4")


@pytest.mark.parametrize("name", SMALL)
def test_every_code_and_scale_of_blocks(library, name):
    data = blocks_of(name)
    got = called("dequantize_blocks", library, data.reshape(1, -1), format=name)[0]
    same(got, decoded(FORMATS[name], data).ravel())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("rows", [1, 40])
def test_unit_vectors_give_the_weights(library, name, rows):
    """Element i of row j of the weights, if finite, is the product with unit vector i, exactly."""
    data = blocks_of(name)[:: 257 if name in F16_SCALES else 1]
    want = decoded(FORMATS[name], data)
    data, want = (each[np.isfinite(want).all(1)] for each in (data, want))
    x = np.eye(want.shape[1], dtype=np.float32)
    x = np.concatenate([x] * -(-rows // len(x)))[:rows] if rows > 1 else x[:1]
    got = called("quantized_matmul", library, x, data, format=name)
    np.testing.assert_array_equal(got, want[:, np.arange(len(x)) % want.shape[1]].T)


def mx_codes(form):
    """Codes and scales: a row for each scale, with all codes."""
    _, block = low_floats.MX[form]
    bits = low_floats.mx_bits(form)
    codes = np.resize(np.arange(1 << bits), max(block, 1 << bits))
    packed = low_floats.pack(np.tile(codes, (256, 1)), bits).astype(np.uint8)
    scales = np.tile(np.arange(256, dtype=np.uint8)[:, None], (1, len(codes) // block))
    return packed, scales, low_floats.dequantize_mx(np.tile(codes, (256, 1)), scales.astype(int), form)


@pytest.mark.parametrize("form", range(len(low_floats.MX)))
def test_every_code_and_scale_of_mx(library, form):
    codes, scales, want = mx_codes(form)
    same(called("dequantize_mx", library, codes, scales, mx_format=bk.MxFormat(form)), want.astype(np.float32))


@pytest.mark.parametrize("form", range(len(low_floats.MX)))
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_unit_vectors_give_mx_weights(library, form, rows):
    codes, scales, want = mx_codes(form)
    finite = np.isfinite(want[64])  # with an ordinary scale
    codes, scales, want = (each[np.isfinite(want[:, finite]).all(1)] for each in (codes, scales, want))
    if not finite.all():  # infinities and NaN among the elements make every sum NaN
        bits = low_floats.unpack(codes.astype(int), 8)
        bits[:, ~finite], want[:, ~finite] = 0, 0
        codes = low_floats.pack(bits, 8).astype(np.uint8)
    x = np.eye(want.shape[1], dtype=np.float32)
    x = np.concatenate([x] * -(-rows // len(x)))[:rows]
    got = called("mx_matmul", library, x, codes, scales, mx_format=bk.MxFormat(form))
    np.testing.assert_array_equal(got, want[:, np.arange(len(x)) % want.shape[1]].T.astype(np.float32))


@pytest.mark.parametrize("book", ["nf4", "fp4"])
def test_every_pair_of_four_bit_codes(library, book):
    """All bytes of two codes; a magnitude for each block of 2."""
    codes = np.arange(256, dtype=np.uint8)
    absmax = np.random.default_rng(3).random(256, np.float32) * 3
    absmax[[0, 9]] = 0, np.inf
    numbers = {"block_size": 2, "book": book}
    twice = np.arange(16, dtype=np.uint8) * 17
    table = called("dequantize_4bit", library, twice, np.ones(16, np.float32), **numbers)[::2]
    got = called("dequantize_4bit", library, codes, absmax, **numbers).reshape(256, 2)
    with np.errstate(invalid="ignore"):
        same(got, np.stack([table[codes >> 4], table[codes & 15]], 1) * absmax[:, None])

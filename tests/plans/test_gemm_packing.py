# SPDX-License-Identifier: Apache-2.0
"""4-bit weights in the layouts of Marlin and AWQ, against the definitions of these layouts and against GEMM."""

import importlib
import importlib.util

import numpy as np
import pytest

import baracuda as bk

KINDS = ["numpy", *(kind for kind in ("torch", "jax") if importlib.util.find_spec(kind))]  # those installed


def of_kind(kind, array):
    if kind == "numpy":
        return array
    return importlib.import_module("torch" if kind == "torch" else "jax.numpy").asarray(array)


def marlin_words(codes):
    """Packs by the definition in the header: eight rows and columns of a word, one after another."""
    k, n = codes.shape
    words = np.zeros((k // 16, 2 * n), np.uint32)
    for tile in range(k // 16):
        for run in range(n // 64):
            for i in range(32):
                rows = [2 * (i % 4) + x for x in (0, 1, 8, 9)]
                for j in range(4):
                    eight = [(r, i // 4 + 8 * block) for block in (0, 1) for r in rows]
                    for nibble, e in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
                        r, column = eight[e]
                        code = codes[16 * tile + r, 64 * run + 16 * j + column]
                        words[tile, 128 * run + 4 * i + j] |= np.uint32(int(code) << (4 * nibble))
    return words.view(np.int32)


def scale_order(n, group_size):
    if group_size == -1:
        return [b + 2 * i + j for b in range(0, n, 32) for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)]
    return [b + i + 8 * j for b in range(0, n, 64) for i in range(8) for j in range(8)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group_size", [128, -1])
def test_marlin(rng, kind, group_size):
    k, n = (256, 128) if group_size == 128 else (48, 64)
    groups = 1 if group_size == -1 else k // 128
    codes = rng.integers(0, 16, (k, n)).astype(np.int32)
    scales = rng.standard_normal((groups, n)).astype(np.float16)
    words, ordered = bk.marlin_pack(of_kind(kind, codes), of_kind(kind, scales), group_size=group_size)
    assert type(words) is type(of_kind(kind, codes))
    assert np.asarray(words).dtype == np.int32
    np.testing.assert_array_equal(np.asarray(words), marlin_words(codes))
    np.testing.assert_array_equal(np.asarray(ordered), scales[:, scale_order(n, group_size)])
    back = bk.marlin_unpack(words, ordered, group_size=group_size)
    np.testing.assert_array_equal(np.asarray(back[0]), codes)
    np.testing.assert_array_equal(np.asarray(back[1]), scales)


def test_zero_points_of_marlin(rng):
    codes, scales = rng.integers(0, 16, (256, 64)).astype(np.uint8), np.ones((2, 64), np.float16)
    zeros = rng.integers(0, 16, (2, 64)).astype(np.int8)
    want = np.clip(codes.astype(int) - np.repeat(zeros, 128, 0) + 8, 0, 15)
    np.testing.assert_array_equal(bk.marlin_unpack(*bk.marlin_pack(codes, scales, zeros))[0], want)
    np.testing.assert_array_equal(
        bk.marlin_unpack(*bk.marlin_pack(codes, scales, 3))[0], np.clip(codes.astype(int) + 5, 0, 15)
    )
    signed = (codes.astype(int) - 8).astype(np.int8)
    np.testing.assert_array_equal(bk.marlin_pack(signed, scales, signed=True)[0], bk.marlin_pack(codes, scales)[0])
    np.testing.assert_array_equal(bk.marlin_pack(signed, scales, 0)[0], bk.marlin_pack(codes, scales)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "group_size"), [(128, 128), (1152, 64), (192, 64), (1280, 128)])
def test_awq(rng, kind, k, group_size):
    n, groups = 5, k // group_size
    multiple = 128 // group_size
    padded = 8 * multiple * -(-groups // (8 * multiple))
    codes, zeros = (rng.integers(0, 16, (n, each)).astype(np.int32) for each in (k, groups))
    scales = rng.standard_normal((n, groups)).astype(np.float16)
    given = [of_kind(kind, each) for each in (codes, scales, zeros)]
    words, rows, points = bk.awq_pack(*given, group_size=group_size)
    for packed, whole in ((words, codes), (points, np.pad(zeros, ((0, 0), (0, padded - groups))))):
        eights = whole.reshape(n, -1, 8).astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32))
        np.testing.assert_array_equal(np.asarray(packed), eights.sum(-1, dtype=np.uint32).view(np.int32))
    np.testing.assert_array_equal(np.asarray(rows), np.pad(scales, ((0, 0), (0, padded - groups))))
    back = bk.awq_unpack(words, rows, points, group_size=group_size)
    for found, want in zip(back, (codes, scales, zeros)):
        np.testing.assert_array_equal(np.asarray(found), want)
    signed = bk.awq_pack(codes - 8, scales, zeros - 8, group_size=group_size, signed=True)
    first = bk.awq_pack(codes, scales, zeros, group_size=group_size)
    np.testing.assert_array_equal(signed[0], first[0])
    np.testing.assert_array_equal(bk.awq_unpack(*signed, group_size=group_size)[2], zeros)


def test_gemm(rng, library):
    """GEMM reads what is packed here."""
    m, n, k = 3, 64, 256
    codes = rng.integers(0, 16, (k, n))
    scales = rng.uniform(0.5, 2, (2, n)).astype(np.float16)
    x = (rng.integers(-8, 9, (m, k)) / 8).astype(np.float16)
    words, ordered = bk.marlin_pack(codes, scales)
    plan = bk.Int4MarlinGemmPlan.select(None, bk.Int4MarlinGemmDescriptor(m, n, k, element=bk.f16), library=library)
    out = bk.empty((m, n), bk.f16)
    args = bk.Int4MarlinGemmArgs(bk.upload(x), bk.upload(words), bk.upload(ordered), out)
    plan.run(None, bk.workspace(plan, args), args)
    want = x.astype(float) @ (np.repeat(scales, 128, 0).astype(float) * (codes - 8))
    np.testing.assert_allclose(bk.download(out), want, rtol=2e-3, atol=0.1)

    zeros = rng.integers(0, 16, (n, 2))
    words, rows, points = bk.awq_pack(codes.T, scales.T, zeros)
    plan = bk.Int4AwqGemmPlan.select(
        None, bk.Int4AwqGemmDescriptor(m, k, n, split_k_iters=1, element=bk.f16), library=library
    )
    args = bk.Int4AwqGemmArgs(bk.upload(x), bk.upload(words), bk.upload(rows), bk.upload(points), out)
    plan.run(None, bk.workspace(plan, args), args)
    weights = np.repeat(scales, 128, 0).astype(float) * (codes - np.repeat(zeros.T, 128, 0))
    np.testing.assert_allclose(bk.download(out), x.astype(float) @ weights, rtol=2e-3, atol=0.1)


def test_refusals():
    codes, scales = np.zeros((128, 64), np.int8), np.ones((1, 64), np.float16)
    with pytest.raises(bk.InvalidProblemError, match="group_size is 64, must be 128 or -1"):
        bk.marlin_pack(codes, scales, group_size=64)
    with pytest.raises(bk.InvalidProblemError, match="n is 32, must be a multiple of 64"):
        bk.marlin_pack(codes[:, :32], scales[:, :32])
    with pytest.raises(bk.InvalidProblemError, match="k is 64, must be a multiple of 128"):
        bk.marlin_pack(codes[:64], scales)
    with pytest.raises(bk.InvalidProblemError, match=r"scales has shape \(2, 64\), expected \(1, 64\)"):
        bk.marlin_pack(codes, np.ones((2, 64), np.float16))
    with pytest.raises(bk.InvalidProblemError, match=r"zeros has shape \(64,\), expected \(1, 64\)"):
        bk.marlin_pack(codes, scales, np.zeros(64, np.int8))
    with pytest.raises(bk.UnsupportedError, match="codes is of float32, must be of integers"):
        bk.marlin_pack(codes.astype(np.float32), scales)
    with pytest.raises(bk.InvalidProblemError, match=r"codes has shape \(8192,\), must have two axes"):
        bk.awq_pack(codes.ravel(), scales)
    with pytest.raises(bk.InvalidProblemError, match="k is 64, must be a multiple of group_size, 128"):
        bk.awq_pack(codes, scales)
    with pytest.raises(bk.InvalidProblemError, match=r"zeros has shape \(64, 2\), expected \(64, 1\)"):
        bk.awq_unpack(np.zeros((64, 128), np.int32), np.ones((64, 8), np.float16), np.zeros((64, 2), np.int32))


def test_names():
    module = importlib.import_module("baracuda.gemm.packing")
    assert all(getattr(bk, name) is getattr(module, name) for name in module.__all__)

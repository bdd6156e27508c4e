# SPDX-License-Identifier: Apache-2.0
"""New keys and values in pages, beside a loop over the tokens."""

import numpy as np
import pytest

import baracuda as bk

PAGES, HEADS, SIZE, WIDTH = 7, 2, 4, 8
ARRAYS = ("k_new", "v_new", "k_cache", "v_cache", "page_ids", "page_offsets", "batch_indices", "positions")


def problem(rng):
    """Three sequences of 3, 0 and 2 pages; the last token lies behind the pages of its sequence."""
    owners, positions = np.array([0, 2, 0, 2, 0], np.int32), np.array([9, 7, 2, 0, 12], np.int32)
    rows = [rng.standard_normal((5, HEADS, WIDTH)).astype(np.float32) for _ in "kv"]
    caches = [rng.standard_normal((PAGES, HEADS, SIZE, WIDTH)).astype(np.float32) for _ in "kv"]
    table = np.array([5, 1, 4, 6, 0], np.int32), np.array([0, 3, 3, 5], np.int32)
    return dict(zip(ARRAYS, (*rows, *caches, *table, owners, positions)))


def slots(given):
    """(token, page, slot) of each token that is kept."""
    for token, (owner, position) in enumerate(zip(given["batch_indices"], given["positions"])):
        begin, end = given["page_offsets"][owner : owner + 2]
        if begin + position // SIZE < end:
            yield token, given["page_ids"][begin + position // SIZE], position % SIZE


def call(given, **more):
    views = {name: bk.upload(array) for name, array in (given | more).items()}
    assert bk.paged_kv_append(**views) is None
    return {name: bk.download(view) for name, view in views.items()}


def test_rows_go_to_their_slots():
    given = problem(np.random.default_rng(1))
    want = {name: given[name].copy() for name in ("k_cache", "v_cache")}
    for token, page, slot in slots(given):
        want["k_cache"][page, :, slot] = given["k_new"][token]
        want["v_cache"][page, :, slot] = given["v_new"][token]
    got = call(given)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.needs_ops("paged_kv_append_quantized_f32_i8")
def test_rows_are_quantized_by_head():
    given = problem(np.random.default_rng(2))
    for name in ("k_cache", "v_cache"):
        given[name] = np.full((PAGES, HEADS, SIZE, WIDTH), 99, np.int8)
    scales = {name: np.full((PAGES, HEADS, SIZE), -1, np.float32) for name in ("k_scales", "v_scales")}
    got = call(given, **scales)
    filled = np.zeros((PAGES, SIZE), bool)
    for token, page, slot in slots(given):
        filled[page, slot] = True
        for kind in "kv":
            row = given[f"{kind}_new"][token]
            scale = got[f"{kind}_scales"][page, :, slot]
            np.testing.assert_allclose(scale, np.abs(row).max(axis=-1) / 127, rtol=1e-6)
            stored = got[f"{kind}_cache"][page, :, slot] * scale[:, None]
            np.testing.assert_allclose(stored, row, atol=scale.max() * 0.501)
    for kind in "kv":
        assert (got[f"{kind}_cache"].swapaxes(1, 2)[~filled] == 99).all()
        assert (got[f"{kind}_scales"].swapaxes(1, 2)[~filled] == -1).all()


def test_no_tokens():
    given = problem(np.random.default_rng(3))
    for name in ("k_new", "v_new", "batch_indices", "positions"):
        given[name] = given[name][:0]
    got = call(given)
    np.testing.assert_array_equal(got["k_cache"], given["k_cache"])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("v_new", lambda x: x[:, :1], r"v_new has shape \(5, 1, 8\)"),
        ("k_cache", lambda x: x[:, :, :, :4], r"k_cache has shape \(7, 2, 4, 4\)"),
        ("v_cache", lambda x: x.astype(np.float64), "v_cache has shape .* and dtype f64"),
        ("positions", lambda x: x.astype(np.int64), "positions has shape .* and dtype i64"),
        ("batch_indices", lambda x: x[:2], r"batch_indices has shape \(2,\)"),
        ("page_ids", lambda x: x[None], r"page_ids has shape \(1, 5\), must have 1 axes"),
        ("page_offsets", lambda x: x[:0], "page_offsets is empty"),
        ("k_new", lambda x: x[0], r"k_new has shape \(2, 8\), must have 3 axes"),
    ],
)
def test_bad_arguments(name, change, message):
    given = problem(np.random.default_rng(4))
    given[name] = np.ascontiguousarray(change(given[name]))
    views = {each: bk.upload(array) for each, array in given.items()}
    with pytest.raises(bk.InvalidProblemError, match=f"paged_kv_append: {message}"):
        bk.paged_kv_append(**views)


def test_one_of_two_scales():
    views = {name: bk.upload(array) for name, array in problem(np.random.default_rng(5)).items()}
    with pytest.raises(bk.InvalidProblemError, match="k_scales and v_scales go together"):
        bk.paged_kv_append(**views, k_scales=bk.zeros((PAGES, HEADS, SIZE), bk.f32))

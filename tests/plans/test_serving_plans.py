# SPDX-License-Identifier: Apache-2.0
"""Plans of serving attention against the functions on arrays, and ring attention over several ranks."""

import ctypes
import queue
import threading

import numpy as np
import pytest

import baracuda as bk

pytestmark = pytest.mark.host_arrays

F16 = np.float16
IDS, STARTS, LAST = (np.array(x, np.int32) for x in ([3, 0, 2], [0, 2, 3], [1, 4]))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def run(plan, **operands):
    args = plan.args_type(**operands)
    plan.can_implement(args)
    plan.run(None, bk.workspace(plan) if plan.workspace_size else None, args)


def halves(rng, *shape):
    return rng.standard_normal(shape).astype(F16)


def test_flash_decoding(rng):
    """Keys and values may be views of longer caches."""
    q, k, v = (
        halves(rng, 2, 6, 32),
        halves(rng, 2, 3, 30, 32)[:, :, :20],
        halves(rng, 2, 20, 3, 32).transpose(0, 2, 1, 3),
    )
    y, a, mean = np.empty_like(q), np.empty((2, 6, 20), np.float32), np.empty((2, 20), np.float32)
    plan = bk.FlashDecodingPlan.select(None, bk.FlashDecodingDescriptor(2, 6, 3, 20, 32, 0.2, element=bk.f16))
    run(plan, q=q, k=k, v=v, y=y, a=a, a_mean=mean)
    np.testing.assert_array_equal(y, bk.attention_decode(q, k, v, scale=0.2)[0])
    np.testing.assert_allclose(a.sum(axis=2), 1, rtol=1e-5)
    np.testing.assert_allclose(mean, a.mean(axis=1), rtol=1e-5)
    assert plan.sku.op == bk.AttentionKind.FLASH_ATTENTION
    with pytest.raises(bk.InvalidProblemError, match=r"k has stride 20 along head_dim, must be 1"):
        run(plan, q=q, k=halves(rng, 2, 3, 32, 20).transpose(0, 1, 3, 2), v=v, y=y)
    with pytest.raises(bk.InvalidProblemError, match="weights is NULL, but mean_weights is not"):
        run(plan, q=q, k=k, v=v, y=y, a_mean=mean)


@pytest.mark.parametrize("element", [bk.f16, bk.e4m3fn, bk.e5m2])
def test_paged_decode(rng, element):
    q, cache = halves(rng, 2, 6, 32), halves(rng, 5, 3, 4, 32)
    o, lse = np.empty_like(q), np.empty((2, 6), np.float32)
    numbers = (2, 6, 3, 32, 4, 5, 3, 0.2)
    if element is bk.f16:
        plan = bk.BatchPagedDecodePlan.select(None, bk.BatchPagedDecodeDescriptor(*numbers, element=bk.f16))
    else:
        described = bk.BatchPagedDecodeFp8Descriptor(*numbers, element=bk.f16, kv_element=element)
        plan = bk.BatchPagedDecodeFp8Plan.select(None, described)
        cache = bk.cast(cache, dtype=element)
    run(plan, q=q, k_data=cache, v_data=cache, indices=IDS, indptr=STARTS, last_page_len=LAST, o=o, lse=lse)
    y, natural = bk.attention_paged(q, cache, cache, IDS, STARTS, LAST, scale=0.2)
    np.testing.assert_array_equal(o, y)
    np.testing.assert_allclose(lse, natural / np.log(2), rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_prefills_agree(rng, causal):
    """A ragged batch, and the same keys in pages."""
    q, starts, lengths = halves(rng, 5, 6, 32), np.array([0, 3, 5], np.int32), (5, 4)
    k, v = halves(rng, 9, 3, 32), halves(rng, 9, 3, 32)
    caches = [np.full((5, 3, 4, 32), np.nan, F16) for _ in "kv"]
    for b, first in enumerate((0, 5)):
        for j in range(lengths[b]):
            for cache, rows in zip(caches, (k, v)):
                cache[IDS[STARTS[b] + j // 4], :, j % 4] = rows[first + j]
    found = [(np.empty_like(q), np.empty((5, 6), np.float32)) for _ in range(2)]
    plan = bk.BatchPagedPrefillPlan.select(
        None, bk.BatchPagedPrefillDescriptor(2, 5, 6, 3, 32, 4, 5, 3, 0.2, causal, element=bk.f16)
    )
    run(plan, q=q, k_data=caches[0], v_data=caches[1], kv_indices=IDS, kv_indptr=STARTS, last_page_len=LAST,
        q_indptr=starts, o=found[0][0], lse=found[0][1])  # fmt: skip
    plan = bk.BatchRaggedPrefillPlan.select(
        None, bk.BatchRaggedPrefillDescriptor(2, 5, 9, 6, 3, 32, 0.2, causal, element=bk.f16)
    )
    run(plan, q=q, k_data=k, v_data=v, q_indptr=starts, kv_indptr=np.array([0, 5, 9], np.int32), o=found[1][0],
        lse=found[1][1])  # fmt: skip
    np.testing.assert_allclose(found[0][0].astype(float), found[1][0].astype(float), atol=2e-3)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)


def test_append(rng):
    cache, new = halves(rng, 5, 3, 4, 32), halves(rng, 2, 3, 32)
    before = cache.copy()
    plan = bk.PagedKvAppendPlan.select(None, bk.PagedKvAppendDescriptor(2, 2, 3, 32, 4, 5, 3, element=bk.f16))
    run(plan, key=new, value=new, batch_indices=np.array([0, 1], np.int32), positions=np.array([5, 9], np.int32),
        indices=IDS, indptr=STARTS, k_data=cache, v_data=np.empty_like(cache))  # fmt: skip
    before[0, :, 1] = new[0]  # the other one is behind the pages of its sequence
    np.testing.assert_array_equal(cache, before)


def test_merges_agree(rng):
    v, s = rng.standard_normal((3, 4, 2, 8)).astype(np.float32), rng.standard_normal((3, 4, 2)).astype(np.float32)
    y, lse = bk.merge_attention_states(v.reshape(3, 8, 8), s.reshape(3, 8), is_base2=True)
    whole, sums = v[0].copy(), s[0].copy()
    plan = bk.CascadeAttentionPlan.select(None, bk.CascadeAttentionDescriptor(4, 2, 8, element=bk.f32))
    for other in (1, 2):
        run(plan, v=whole, s=sums, v_other=v[other], s_other=s[other])
    np.testing.assert_allclose(whole.reshape(8, 8), y, atol=1e-6)
    np.testing.assert_allclose(sums.reshape(8), lse, atol=1e-6)
    merged, total = np.empty((4, 2, 8), np.float32), np.empty((4, 2), np.float32)
    plan = bk.CascadeMergeStatesPlan.select(None, bk.CascadeMergeStatesDescriptor(3, 4, 2, 8, element=bk.f32))
    run(plan, v=np.ascontiguousarray(v.swapaxes(0, 1)), s=np.ascontiguousarray(s.swapaxes(0, 1)), v_merged=merged,
        s_merged=total)  # fmt: skip
    np.testing.assert_array_equal(merged.reshape(8, 8), y)
    np.testing.assert_array_equal(total.reshape(8), lse)


@pytest.mark.parametrize("dtype", [np.float32, F16])
def test_hyper_connection(rng, dtype):
    x, gamma = rng.standard_normal((2, 3, 16)).astype(dtype), rng.standard_normal(16).astype(np.float32)
    weights = [rng.standard_normal(n).astype(np.float32) for n in (3, 3, (3, 3))]
    out = np.empty_like(x)
    described = bk.HyperConnectionDescriptor(2, 16, 3, element=bk.f32 if dtype is np.float32 else bk.f16)
    run(bk.HyperConnectionPlan.select(None, described), x=x, rmsnorm_weight=gamma, h_pre=weights[0], h_post=weights[1],
        h_res=weights[2], out=out)  # fmt: skip
    np.testing.assert_array_equal(out, bk.hyper_connection(x, gamma, *weights))


class Mailboxes:
    """A communicator of threads: each rank has a queue."""

    def __init__(self, rank, boxes):
        self.rank, self.size, self.boxes = rank, len(boxes), boxes

    def send_and_receive(self, send, to, receive, source, stream):
        assert (to - self.rank) % self.size == 1 and (self.rank - source) % self.size == 1
        self.boxes[to].put(ctypes.string_at(send.ptr, send.nbytes))
        data = self.boxes[self.rank].get(timeout=60)
        ctypes.memmove(receive.ptr, data, len(data))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ring_is_attention(rng, ranks, is_causal):
    shape, rows, chunk = (2, 2), 4, 4
    q, k, v = (halves(rng, *shape, n * ranks, 16) for n in (rows, chunk, chunk))
    found, boxes = {}, [queue.Queue() for _ in range(ranks)]

    def work(rank):
        described = bk.RingAttentionDescriptor(*shape, rows, chunk, 16, 0.25, is_causal, element=bk.f16)
        plan = bk.RingAttentionPlan.select(None, described)
        own = slice(rank * chunk, (rank + 1) * chunk)
        scratch = np.stack([k[:, :, own], v[:, :, own]])
        y, lse = np.empty((*shape, rows, 16), F16), np.empty((*shape, rows), F16)
        args = plan.args_type(np.ascontiguousarray(q[:, :, rank * rows : (rank + 1) * rows]), scratch, y,
                              np.empty_like(scratch) if ranks > 1 else None, lse)  # fmt: skip
        communicator = None if ranks == 1 else Mailboxes(rank, boxes)
        plan.run(None, np.empty(plan.workspace_size, np.uint8), communicator, args)
        found[rank] = y, lse

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    y, lse = (np.concatenate([found[rank][i] for rank in range(ranks)], axis=2).astype(float) for i in range(2))
    scores = 0.25 * np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float))
    if is_causal:
        scores = np.where(np.tri(rows * ranks, dtype=bool), scores, -np.inf)
    total = np.exp(scores).sum(axis=-1)
    np.testing.assert_allclose(y, np.exp(scores) @ v.astype(float) / total[..., None], atol=2e-3)
    np.testing.assert_allclose(lse, np.log(total), atol=3e-3)


def test_ring_refuses():
    plan = bk.RingAttentionPlan.select(None, bk.RingAttentionDescriptor(1, 2, 3, 4, 8, 1.0, element=bk.f16))
    q, scratch = np.zeros((1, 2, 3, 8), F16), np.zeros((2, 1, 2, 4, 8), F16)
    assert plan.workspace_size == 4 * 6 * 10
    with pytest.raises(bk.WorkspaceTooSmallError, match="needs 240"):
        plan.run(None, np.empty(239, np.uint8), None, plan.args_type(q, scratch, np.empty_like(q)))
    with pytest.raises(bk.InvalidProblemError, match="kv_scratch_b is None"):
        plan.run(
            None, np.empty(240, np.uint8), Mailboxes(0, [None, None]), plan.args_type(q, scratch, np.empty_like(q))
        )
    with pytest.raises(bk.InvalidProblemError, match=r"communicator.rank is 2, must be in \[0, 2\)"):
        plan.run(
            None, np.empty(240, np.uint8), Mailboxes(2, [None, None]), plan.args_type(q, scratch, np.empty_like(q))
        )
    with pytest.raises(bk.InvalidProblemError, match="expected"):
        plan.run(None, np.empty(240, np.uint8), None, plan.args_type(q, scratch[:, :, :1], np.empty_like(q)))

# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 4, 8), np.float32)  # two sequences, heads, features
k_cache, v_cache = rng.standard_normal((2, 4, 2, 3, 8), np.float32)  # pages, heads, slots, features
pages, starts = np.array([3, 0, 2], np.int32), np.array([0, 2, 3], np.int32)  # pages 3 and 0, page 2
last = np.array([1, 3], np.int32)  # 4 keys and 3
y, lse = bk.attention_paged(q, k_cache, v_cache, pages, starts, last)
k, v = (np.concatenate([cache[3], cache[0, :, :1]], axis=1)[None] for cache in (k_cache, v_cache))
print(y.shape, np.allclose(y[:1], bk.attention_decode(q[:1], k, v)[0], atol=1e-6))

# %% Plan
of = {"num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 8, "page_size": 3, "num_total_pages": 4, "num_page_ids": 3}
plan = bk.BatchPagedDecodePlan.select(None, bk.BatchPagedDecodeDescriptor(2, **of, sm_scale=8**-0.5, element=bk.f32))
caches = {"k_data": bk.upload(k_cache), "v_data": bk.upload(v_cache), "last_page_len": bk.upload(last)}
o, log2 = bk.empty((2, 4, 8), bk.f32), bk.empty((2, 4), bk.f32)
table = {"indices": bk.upload(pages), "indptr": bk.upload(starts)}
plan.run(None, bk.workspace(plan), bk.BatchPagedDecodeArgs(q=bk.upload(q), **caches, **table, o=o, lse=log2))
print(np.allclose(bk.download(o), y), np.allclose(bk.download(log2), lse / np.log(2)))  # lse of base 2

# %% Plan of several queries
rows = bk.upload(np.array([0, 2, 3], np.int32))  # two queries and one
described = bk.BatchPagedPrefillDescriptor(2, 3, **of, sm_scale=8**-0.5, causal=True, element=bk.f32)
plan = bk.BatchPagedPrefillPlan.select(None, described)
o, q = bk.empty((3, 4, 8), bk.f32), bk.upload(q[[0, 0, 1]])
table = {"kv_indices": bk.upload(pages), "kv_indptr": bk.upload(starts), "q_indptr": rows}
plan.run(None, bk.workspace(plan), bk.BatchPagedPrefillArgs(q=q, **caches, **table, o=o))
print(np.allclose(bk.download(o)[1:], y))  # the last query sees every key

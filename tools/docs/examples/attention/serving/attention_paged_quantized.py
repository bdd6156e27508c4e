# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 4, 8), np.float32).astype(np.float16)  # two sequences, heads, features
k_cache, v_cache = rng.integers(-127, 128, (2, 4, 2, 3, 8), np.int8)  # pages, heads, slots, features
k_scales, v_scales = rng.uniform(0.01, 0.02, (2, 4, 2, 3)).astype(np.float32)  # a factor for each slot of a head
pages, starts = np.array([3, 0, 2], np.int32), np.array([0, 2, 3], np.int32)  # pages 3 and 0, page 2
last = np.array([1, 3], np.int32)  # 4 keys and 3
y, lse = bk.attention_paged_quantized(q, k_cache, v_cache, k_scales, v_scales, pages, starts, last)
k, v = (x * scales[..., None] for x, scales in ((k_cache, k_scales), (v_cache, v_scales)))
whole = bk.attention_paged(q.astype(np.float32), k, v, pages, starts, last)[0]
print(y.shape, np.allclose(y, whole, atol=2e-3))

# %% Plan
of = {"num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 8, "page_size": 3, "num_total_pages": 4, "num_page_ids": 3}
described = bk.BatchPagedDecodeQuantizedDescriptor(2, **of, sm_scale=8**-0.5, element=bk.f16, kv_element=bk.s8)
plan = bk.BatchPagedDecodeQuantizedPlan.select(None, described)
caches = {"k_data": k_cache, "v_data": v_cache, "k_scales": k_scales, "v_scales": v_scales}
table = {"indices": pages, "indptr": starts, "last_page_len": last}
given = {name: bk.upload(array) for name, array in (caches | table).items()}
o, log2 = bk.empty((2, 4, 8), bk.f16), bk.empty((2, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.BatchPagedDecodeQuantizedArgs(q=bk.upload(q), **given, o=o, lse=log2))
print(np.allclose(bk.download(o), y))

# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((3, 2, 8), np.float32), *rng.standard_normal((2, 7, 2, 8), np.float32)
queries, keys = np.array([0, 2, 3], np.int32), np.array([0, 3, 7], np.int32)  # 2 queries of 3 keys, 1 of 4
y, lse = bk.attention_ragged(q, k, v, queries, keys, is_causal=True)
print(y.shape, lse.shape)

# %% Plan
of = bk.BatchRaggedPrefillDescriptor(2, 3, 7, 2, 2, head_dim=8, sm_scale=8**-0.5, causal=True, element=bk.f32)
plan = bk.BatchRaggedPrefillPlan.select(None, of)
o, log2 = bk.empty((3, 2, 8), bk.f32), bk.empty((3, 2), bk.f32)
offsets = {"q_indptr": bk.upload(queries), "kv_indptr": bk.upload(keys)}
args = bk.BatchRaggedPrefillArgs(q=bk.upload(q), k_data=bk.upload(k), v_data=bk.upload(v), **offsets, o=o, lse=log2)
plan.run(None, bk.workspace(plan), args)
print(np.allclose(bk.download(o), y), np.allclose(bk.download(log2), lse / np.log(2)))  # lse of base 2

# %% Plan
import numpy as np

import baracuda as bk

k_new = bk.upload(np.ones((2, 1, 1, 3), np.float32))  # batch, heads, new tokens, features of keys
v_new = bk.upload(np.full((2, 1, 1, 2), 2, np.float32))
k_cache, v_cache = bk.zeros((2, 1, 4, 3), bk.f32), bk.zeros((2, 1, 4, 2), bk.f32)  # of 4 tokens at most
lengths = bk.upload(np.array([0, 2]))  # tokens that each sequence has
of = bk.KvCacheAppendDescriptor(2, 1, new_len=1, max_cache_len=4, d_k=3, d_v=2, element=bk.f32)
plan = bk.KvCacheAppendPlan.select(None, of)
args = bk.KvCacheAppendArgs(k_new=k_new, v_new=v_new, cache_offsets=lengths, k_cache=k_cache, v_cache=v_cache)
plan.run(None, None, args)
print(bk.download(k_cache)[:, 0], bk.download(v_cache)[:, 0], sep="\n")

# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 4, 8), np.float32)  # sequences, heads, features: one query each
k, v = rng.standard_normal((2, 2, 2, 30, 8), np.float32)  # a capacity of 30 keys
y, lse = bk.attention_decode(q, k[:, :, :20], v[:, :, :20])  # of which 20 are there
whole = bk.scaled_dot_product_attention(q[:, :, None], k[:, :, :20], v[:, :, :20], enable_gqa=True)
print(y.shape, lse.shape, np.allclose(y, whole[:, :, 0], atol=1e-6))

# %% Plan
of = bk.FlashDecodingDescriptor(2, 4, num_kv_heads=2, k_len=30, head_dim=8, scale=8**-0.5, element=bk.f32)
plan = bk.FlashDecodingPlan.select(None, of)
y, weights = bk.empty((2, 4, 8), bk.f32), bk.empty((2, 4, 30), bk.f32)
args = bk.FlashDecodingArgs(q=bk.upload(q), k=bk.upload(k), v=bk.upload(v), y=y, a=weights)
plan.run(None, bk.workspace(plan), args)
print(np.allclose(bk.download(weights).sum(axis=-1), 1))

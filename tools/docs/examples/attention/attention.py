# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q = rng.standard_normal((1, 4, 3, 8), np.float32)  # batch, heads, queries, features
k, v = rng.standard_normal((2, 1, 2, 5, 8), np.float32)  # two heads, each for two of q
y = bk.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
print(y.shape, np.allclose(y[0, :, 0], v[0, [0, 0, 1, 1], 0]))  # the first query sees the first key

# %% All parts
y, lse = bk.fused_attention_forward(q, k, v, scale=0.5, window_left=2, window_right=0, aligns_ends=True, softcap=20.0)
print(y.shape, lse.shape, np.allclose(y, bk.fused_attention(q, k, v, scale=0.5, window_left=2, window_right=0,
                                                            aligns_ends=True, softcap=20.0)))  # fmt: skip

# %% Gradient
y, lse = bk.scaled_dot_product_attention(q, k, v, enable_gqa=True, return_lse=True)
dq, dk, dv, _, _ = bk.scaled_dot_product_attention_backward(np.ones_like(y), q, k, v, y, lse, enable_gqa=True)
print(dq.shape, dk.shape, dv.shape)
print(np.allclose(dv.sum(axis=2), 2 * 3))  # probabilities of two heads and three queries, each a sum of 1

# %% Gradient of a bias
bias = np.zeros((4, 3, 5), np.float32)
y, lse = bk.fused_attention_forward(q, k, v, bias)
dbias = bk.fused_attention_backward(y, q, k, v, y, lse, bias)[3]
print(dbias.shape, np.allclose(dbias.sum(axis=-1), 0, atol=1e-5))

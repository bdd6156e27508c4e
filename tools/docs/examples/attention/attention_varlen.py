# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((3, 7, 2, 8), np.float32)  # rows of all sequences, heads, features
offsets = np.array([0, 4, 4, 7], np.int32)  # of 4, 0 and 3 rows
y, lse = bk.flash_attn_varlen(q, k, v, offsets, offsets, 4, 4, causal=True, return_softmax_lse=True)
alone = bk.scaled_dot_product_attention(q[None, :4], k[None, :4], v[None, :4], is_causal=True, layout="bshd")
print(y.shape, lse.shape, np.allclose(y[:4], alone[0]))
print(np.allclose(bk.fused_attention_varlen(q, k, v, offsets, offsets, 4, 4, is_causal=True), y))

# %% Gradient
dq, dk, dv = bk.flash_attn_varlen_backward(np.ones_like(y), q, k, v, y, lse, offsets, offsets, 4, 4, causal=True)
print(dq.shape, np.allclose(dv.sum(axis=0), 7))  # probabilities of seven queries
more = bk.fused_attention_varlen_backward(np.ones_like(y), q, k, v, offsets, offsets, y, lse, 4, 4, is_causal=True)
print(np.allclose(more[2], dv))

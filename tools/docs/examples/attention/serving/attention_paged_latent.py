# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 4, 12), np.float32)  # two sequences, heads, elements of a latent vector
cache = rng.standard_normal((4, 3, 12), np.float32)  # pages, slots, elements, of which the first 8 are the value
pages, starts = np.array([3, 0, 2], np.int32), np.array([0, 2, 3], np.int32)  # pages 3 and 0, page 2
last = np.array([1, 3], np.int32)  # 4 keys and 3
y, lse = bk.attention_paged_latent(q, cache, pages, starts, last, d_v=8)
keys = np.concatenate([cache[3], cache[0, :1]])[None, None]
print(y.shape, np.allclose(y[:1], bk.attention_decode(q[:1], keys, keys[..., :8])[0], atol=1e-6))

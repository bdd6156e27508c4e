# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((2, 3, 8), np.float32), *rng.standard_normal((2, 2, 3, 20, 8), np.float32)
first = bk.attention_decode(q, k[:, :, :12], v[:, :, :12])
second = bk.attention_decode(q, k[:, :, 12:], v[:, :, 12:])
values = np.stack([first[0], second[0]]).reshape(2, 6, 8)  # two states of each row
logs = np.stack([first[1], second[1]]).reshape(2, 6)
y, lse = bk.merge_attention_states(values, logs)
print(np.allclose(y.reshape(2, 3, 8), bk.attention_decode(q, k, v)[0], atol=1e-6), lse.shape)

# %% Plan
of = bk.MergeAttentionStatesDescriptor(num_states=2, num_rows=6, head_dim=8, element=bk.f32)
plan = bk.MergeAttentionStatesPlan.select(None, of)
merged = bk.empty((6, 8), bk.f32)
plan.run(None, None, bk.MergeAttentionStatesArgs(values=bk.upload(values), lse=bk.upload(logs), y=merged))
print(np.allclose(bk.download(merged), y))

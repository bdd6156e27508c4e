# %% Plan
import numpy as np

import baracuda as bk

q = bk.upload(np.ones((1, 1, 2, 4), np.float32))  # batch, heads, queries, features
k = bk.upload(np.ones((1, 1, 3, 4), np.float32))
v = bk.upload(np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2))
extents = {"batch_size": 1, "num_heads": 1, "query_len": 2, "key_len": 3, "d_k": 4, "d_v": 2}
of = extents | {"scale": 0.5, "is_causal": True, "element": bk.f32}
plan = bk.FlashSdpaPlan.select(None, bk.FlashSdpaDescriptor(**of))
y, lse = bk.empty((1, 1, 2, 2), bk.f32), bk.empty((1, 1, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.FlashSdpaArgs(q=q, k=k, v=v, y=y, lse=lse))
print(bk.download(y)[0, 0], bk.download(lse)[0, 0], sep="\n")  # query i sees the keys up to i

# %% Plan with a mask
hidden = -np.inf
mask = bk.upload(np.array([[[[0, 0, 0], [hidden, 0, 0]]]], np.float32))  # added to the scores
masked, sums = bk.empty((1, 1, 2, 2), bk.f32), bk.empty((1, 1, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.FlashSdpaArgs(q=q, k=k, v=v, mask=mask, y=masked, lse=sums))
print(bk.download(masked)[0, 0])  # the last query sees key 1 alone

# %% Plan of the gradient
back = bk.FlashSdpaBackwardPlan.select(None, bk.FlashSdpaBackwardDescriptor(**of))
gradients = {"dq": bk.empty(q.shape, bk.f32), "dk": bk.empty(k.shape, bk.f32), "dv": bk.empty(v.shape, bk.f32)}
args = bk.FlashSdpaBackwardArgs(q=q, k=k, v=v, y=y, lse=lse, dy=y, d_ws=bk.empty((1, 1, 2), bk.f32), **gradients)
back.run(None, bk.workspace(back), args)
print(bk.download(gradients["dv"])[0, 0])

# %% Plan
import numpy as np

import baracuda as bk

q = bk.upload(np.ones((1, 1, 2, 4), np.float32))  # batch, heads, queries, features
k = bk.upload(np.ones((1, 1, 3, 4), np.float32))
v = bk.upload(np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2))
extents = {"batch_size": 1, "num_heads": 1, "query_len": 2, "key_len": 3, "d_k": 4, "d_v": 2, "scale": 0.5}
plan = bk.SdpaPlan.select(None, bk.SdpaDescriptor(**extents, is_causal=True, element=bk.f32))
attn, y = bk.empty((1, 1, 2, 3), bk.f32), bk.empty((1, 1, 2, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.SdpaArgs(q=q, k=k, v=v, attn=attn, y=y))
print(bk.download(attn)[0, 0], bk.download(y)[0, 0], sep="\n")  # query i sees the keys up to i

# %% Plan of the gradient
back = bk.SdpaBackwardPlan.select(None, bk.SdpaBackwardDescriptor(**extents, element=bk.f32))
gradients = {"dq": bk.empty(q.shape, bk.f32), "dk": bk.empty(k.shape, bk.f32), "dv": bk.empty(v.shape, bk.f32)}
scores = bk.empty((1, 1, 2, 3), bk.f32)  # their gradient
args = bk.SdpaBackwardArgs(q=q, k=k, v=v, attn=attn, dy=y, dscores_ws=scores, **gradients)
back.run(None, bk.workspace(back), args)
print(bk.download(gradients["dv"])[0, 0])

# %% Plan
import numpy as np

import baracuda as bk

q = bk.upload(np.ones((1, 4, 2, 8), np.float16))  # batch, heads, queries, features
k = bk.upload(np.ones((1, 2, 3, 8), np.float16))  # two heads, each for two of q
v = bk.upload(np.arange(6, dtype=np.float16).reshape(1, 2, 3, 1) * np.ones(8, np.float16))
extents = {"batch_size": 1, "num_heads": 4, "num_heads_k": 2, "seq_q": 2, "seq_k": 3, "head_dim": 8}
of = extents | {"scale": 8**-0.5, "is_causal": True, "window_size_left": 1, "element": bk.f16}
plan = bk.Fa2SdpaPlan.select(None, bk.Fa2SdpaDescriptor(**of))
y, lse = bk.empty((1, 4, 2, 8), bk.f16), bk.empty((1, 4, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.Fa2SdpaArgs(q=q, k=k, v=v, y=y, lse=lse))
print(bk.download(y)[0, :, :, 0])  # the last query sees the last two keys

# %% Plan of the gradient
back = bk.Fa2SdpaBackwardPlan.select(None, bk.Fa2SdpaBackwardDescriptor(**of))
gradients = {"dq": bk.empty(q.shape, bk.f16), "dk": bk.empty(k.shape, bk.f16), "dv": bk.empty(v.shape, bk.f16)}
dy = bk.upload(np.ones((1, 4, 2, 8), np.float16))
back.run(None, bk.workspace(back), bk.Fa2SdpaBackwardArgs(q=q, k=k, v=v, y=y, dy=dy, lse=lse, **gradients))
print(bk.download(gradients["dv"])[0, :, :, 0])  # probabilities of two heads and two queries

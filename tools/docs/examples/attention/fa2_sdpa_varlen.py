# %% Plan
import numpy as np

import baracuda as bk

q, k = (bk.upload(np.ones((5, 1, 8), np.float16)) for _ in range(2))  # rows of all sequences, heads, features
v = bk.upload(np.arange(5, dtype=np.float16).reshape(5, 1, 1) * np.ones(8, np.float16))
offsets = bk.upload(np.array([0, 2, 5], np.int32))  # sequences of two rows and of three
extents = {"batch_size": 2, "num_heads": 1, "num_heads_k": 1, "total_q": 5, "total_k": 5, "d_k": 8, "d_v": 8}
of = extents | {"max_seqlen_q": 3, "max_seqlen_k": 3, "scale": 8**-0.5, "is_causal": True, "element": bk.f16}
plan = bk.FlashSdpaVarlenPlan.select(None, bk.FlashSdpaVarlenDescriptor(**of))
y, lse = bk.empty((5, 1, 8), bk.f16), bk.empty((1, 5), bk.f32)
where = {"cu_seqlens_q": offsets, "cu_seqlens_k": offsets}
plan.run(None, bk.workspace(plan), bk.FlashSdpaVarlenArgs(q=q, k=k, v=v, **where, y=y, lse=lse))
print(bk.download(y)[:, 0, 0])

# %% Plan of the gradient
back = bk.FlashSdpaVarlenBackwardPlan.select(None, bk.FlashSdpaVarlenBackwardDescriptor(**of))
gradients = {name: bk.empty((5, 1, 8), bk.f16) for name in ("dq", "dk", "dv")}
dy = bk.upload(np.ones((5, 1, 8), np.float16))
args = bk.FlashSdpaVarlenBackwardArgs(q=q, k=k, v=v, y=y, dy=dy, lse=lse, **where, **gradients)
back.run(None, bk.workspace(back), args)
print(bk.download(gradients["dv"])[:, 0, 0])  # sums of probabilities

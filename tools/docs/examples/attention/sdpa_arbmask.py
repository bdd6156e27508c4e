# %% Plan
import numpy as np

import baracuda as bk

q = bk.upload(np.ones((1, 1, 3, 4), np.float32))  # batch, heads, queries, features
k = bk.upload(np.ones((1, 1, 3, 4), np.float32))
v = bk.upload(np.array([[[[1], [2], [4]]]], np.float32))
hidden = -np.inf
tree = np.array([[0, hidden, hidden], [0, 0, hidden], [0, hidden, 0]], np.float32)  # two drafts of one token
extents = {"batch_size": 1, "num_heads": 1, "query_len": 3, "key_len": 3, "d_k": 4, "d_v": 1, "scale": 0.5}
plan = bk.FlashSdpaPlan.select(None, bk.FlashSdpaDescriptor(**extents, element=bk.f32))
y, lse = bk.empty((1, 1, 3, 1), bk.f32), bk.empty((1, 1, 3), bk.f32)
args = bk.FlashSdpaArgs(q=q, k=k, v=v, mask=bk.upload(tree.reshape(1, 1, 3, 3)), y=y, lse=lse)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y).ravel())

# %% Plan
import numpy as np

import baracuda as bk

q, k = (bk.upload(np.ones((1, 1, 4, 8), np.float32)) for _ in range(2))  # batch, heads, rows, features
v = bk.upload(np.array([[[[1], [3], [5], [9]]]], np.float32))
pattern = bk.upload(np.array([[[[1, 0], [1, 1]]]], np.uint8))  # blocks of two queries and two keys
extents = {"batch_size": 1, "num_heads": 1, "query_len": 4, "key_len": 4, "d_k": 8, "d_v": 1, "scale": 0.5}
plan = bk.SdpaBlockSparsePlan.select(None, bk.SdpaBlockSparseDescriptor(**extents, block_size=2, element=bk.f32))
y, lse = bk.empty((1, 1, 4, 1), bk.f32), bk.empty((1, 1, 4), bk.f32)
args = bk.SdpaBlockSparseArgs(q=q, k=k, v=v, block_pattern=pattern, y=y, lse=lse)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y).ravel())

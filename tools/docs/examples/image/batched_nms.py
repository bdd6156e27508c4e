# %% Function
import numpy as np

import baracuda as bk

boxes = np.array([[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 5, 5], [3, 3, 5, 4.9]], dtype=np.float32)
scores = np.array([0.5, 0.9, 0.6, 0.7], dtype=np.float32)
indices, count = bk.nms(boxes, scores, 0.5)
print(indices[: int(count[0])])

# %% Classes
indices, count = bk.batched_nms(boxes, scores, np.array([0, 0, 1, 2], dtype=np.int32), 0.5)
print(indices, count)

# %% Plan
plan = bk.BatchedNmsPlan.select(None, bk.BatchedNmsDescriptor(4, 0.5, element=bk.f32))
kept, count = bk.empty((4,), bk.i64), bk.empty((1,), bk.i32)
args = bk.BatchedNmsArgs(boxes=bk.upload(boxes), scores=bk.upload(scores), indices=kept, count=count)
plan.run(None, bk.workspace(plan), args)
print(bk.download(kept), bk.download(count))

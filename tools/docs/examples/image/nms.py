# %% Plan
import numpy as np

import baracuda as bk

boxes = np.array([[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 5, 5]], dtype=np.float32)  # by falling score
plan = bk.NmsPlan.select(None, bk.NmsDescriptor(3, 0.5, element=bk.f32))
mask, count = bk.empty((3,), bk.u8), bk.empty((1,), bk.i32)
plan.run(None, bk.workspace(plan), bk.NmsArgs(boxes=bk.upload(boxes), keep_mask=mask, count_out=count))
print(bk.download(mask), bk.download(count))

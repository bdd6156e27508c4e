# %% Function
import numpy as np

import baracuda as bk

table = np.zeros((3, 34), dtype=np.uint8)  # three rows of one q8_0 block
table[:, :2] = np.array([[0.5], [1.0], [2.0]], dtype=np.float16).view(np.uint8)
table[:, 2] = 3
print(bk.take_blocks(table, np.array([2, 0, 7]), "q8_0")[:, 0])

# %% Plan
rows = bk.empty((2, 32), bk.f32)
plan = bk.TakeBlocksPlan.select(
    None, bk.TakeBlocksDescriptor(bk.GgufBlockFormat.Q8_0, num_indices=2, num_rows=3, columns=32, element=bk.f32)
)
indices = bk.upload(np.array([2, 1], dtype=np.int32))
plan.run(None, bk.workspace(plan), bk.TakeBlocksArgs(x=bk.upload(table), indices=indices, y=rows))
print(bk.download(rows)[:, 0])

# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32)
values, indices = bk.topk(x, 1, axis=0, largest=False)
print(values, indices)

# %% Plan
x = bk.upload(x)
rows = bk.empty((1, 5), bk.f32), bk.empty((1, 5), bk.i32)
along = bk.TopkAxisPlan.select(None, bk.TopkAxisDescriptor((2, 5), 0, 1, largest=False, element=bk.f32))
along.run(None, bk.workspace(along), bk.TopkAxisArgs(input=x, values=rows[0], indices=rows[1]))
print(bk.download(rows[0]))

# %% Plan of the gradient
dx = bk.empty((2, 5), bk.f32)
back = bk.TopkAxisBackwardPlan.select(None, bk.TopkAxisBackwardDescriptor((2, 5), 0, 1, element=bk.f32))
back.run(None, bk.workspace(back), bk.TopkAxisBackwardArgs(dy=rows[0], indices=rows[1], dx=dx))
print(bk.download(dx))

# %% Function
import numpy as np

import baracuda as bk

x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
boxes = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2, 1]], dtype=np.float32)  # image, x1, y1, x2, y2
y, argmax = bk.roi_pool(x, boxes, 2)
print(y, argmax)

# %% Gradient
print(bk.roi_pool_backward(np.ones_like(y), boxes, argmax, x))

# %% Plan
plan = bk.RoiPoolPlan.select(None, bk.RoiPoolDescriptor(1, 1, 4, 4, 2, 2, 2, element=bk.f32))
pooled, cells = bk.empty((2, 1, 2, 2), bk.f32), bk.empty((2, 1, 2, 2), bk.i32)
args = bk.RoiPoolArgs(input=bk.upload(x), rois=bk.upload(boxes), output=pooled, argmax=cells)
plan.run(None, bk.workspace(plan), args)
print(bk.download(pooled), bk.download(cells))

# %% Plan of the gradient
plan = bk.RoiPoolBackwardPlan.select(None, bk.RoiPoolBackwardDescriptor(1, 1, 4, 4, 2, 2, 2, element=bk.f32))
dx = bk.zeros((1, 1, 4, 4), bk.f32)  # it is added to
args = bk.RoiPoolBackwardArgs(dout=bk.upload(np.ones_like(y)), rois=bk.upload(boxes), argmax=cells, dinput=dx)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dx))

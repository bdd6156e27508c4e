# %% Function
import numpy as np

import baracuda as bk

x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
boxes = np.array([[0, 0, 0, 4, 4], [0, 1, 1, 3, 2]], dtype=np.float32)  # image, x1, y1, x2, y2
y = bk.roi_align(x, boxes, 2, aligned=True)
print(y)

# %% Gradient
print(bk.roi_align_backward(np.ones_like(y), boxes, x, aligned=True))

# %% Plan
plan = bk.RoiAlignPlan.select(None, bk.RoiAlignDescriptor(1, 1, 4, 4, 2, 2, 2, aligned=True, element=bk.f32))
pooled = bk.empty((2, 1, 2, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.RoiAlignArgs(input=bk.upload(x), rois=bk.upload(boxes), output=pooled))
print(bk.download(pooled))

# %% Plan of the gradient
descriptor = bk.RoiAlignBackwardDescriptor(1, 1, 4, 4, 2, 2, 2, aligned=True, element=bk.f32)
plan = bk.RoiAlignBackwardPlan.select(None, descriptor)
dx = bk.zeros((1, 1, 4, 4), bk.f32)  # it is added to
args = bk.RoiAlignBackwardArgs(dout=bk.upload(np.ones_like(y)), rois=bk.upload(boxes), dinput=dx)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dx))

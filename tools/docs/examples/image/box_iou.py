# %% Function
import numpy as np

import baracuda as bk

boxes = np.array([[0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6]], dtype=np.float32)
print(bk.box_iou(boxes, boxes[:2]))

# %% Plan
plan = bk.BoxIouPlan.select(None, bk.BoxIouDescriptor(3, 2, element=bk.f32))
iou = bk.empty((3, 2), bk.f32)
plan.run(None, None, bk.BoxIouArgs(boxes1=bk.upload(boxes), boxes2=bk.upload(boxes[:2]), iou=iou))
print(bk.download(iou))

# %% Plan
import numpy as np

import baracuda as bk

block = np.zeros(34, dtype=np.uint8)
block[:2] = np.array([0.5], dtype=np.float16).view(np.uint8)
block[2:] = np.arange(32)
values = bk.empty((32,), bk.f32)
plan = bk.GgufDequantizePlan.select(None, bk.GgufDequantizeDescriptor(bk.GgufBlockFormat.Q8_0, 32, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.GgufDequantizeArgs(input=bk.upload(block), output=values))
print(bk.download(values)[:5])

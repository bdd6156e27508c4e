# %% Function
import numpy as np

import baracuda as bk

codes = np.array([1, 10, 6, 7], dtype=np.uint8)
print(bk.decode_floats(codes, float_format="e2m1"))

# %% Plan
y = bk.empty((4,))
plan = bk.DecodeFloatsPlan.select(None, bk.DecodeFloatsDescriptor(4, bk.FloatFormat.E2M1, element=bk.f32))
plan.run(None, None, bk.DecodeFloatsArgs(codes=bk.upload(codes), y=y))
print(bk.download(y))

# %% Function
import numpy as np

import baracuda as bk

x = np.array([0.3, -1.2, 5.0, 100.0], dtype=np.float32)
codes = bk.encode_floats(x, float_format="e2m1")
print(codes)

# %% Plan
found = bk.empty((4,), bk.u8)
plan = bk.EncodeFloatsPlan.select(None, bk.EncodeFloatsDescriptor(4, bk.FloatFormat.E2M1, element=bk.f32))
plan.run(None, None, bk.EncodeFloatsArgs(x=bk.upload(x), codes=found))
print(bk.download(found))

# %% Function
import numpy as np

import baracuda as bk

w = np.linspace(-1, 1, 3 * 64, dtype=np.float32)  # a 3 x 64 matrix
codes, absmax = bk.quantize_4bit(w)
x = np.ones((2, 64), dtype=np.float32)
print(bk.gemv_4bit(x, codes, 3, absmax))

# %% Plan
y = bk.empty((2, 3))
plan = bk.Gemv4BitPlan.select(None, bk.Gemv4BitDescriptor(2, 3, 64, element=bk.f32))
plan.run(None, None, bk.Gemv4BitArgs(x=bk.upload(x), codes=bk.upload(codes), absmax=bk.upload(absmax), y=y))
print(bk.download(y))

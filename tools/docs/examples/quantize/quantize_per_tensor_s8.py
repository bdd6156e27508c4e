# %% Function
import numpy as np

import baracuda as bk

x = np.array([-1.0, -0.125, 0.0, 0.375, 9.0], dtype=np.float32)
q = bk.quantize_linear(x, 0.25, 3)
print(q, q.dtype)
print(bk.dequantize_linear(q, 0.25, 3))

# %% Plan
codes = bk.empty((5,), bk.s8)
plan = bk.QuantizePerTensorPlan.select(None, bk.QuantizePerTensorDescriptor(5, 0.25, 3, element=bk.f32))
plan.run(None, None, bk.QuantizePerTensorArgs(input=bk.upload(x), output=codes))
print(bk.download(codes))

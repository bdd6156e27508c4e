# %% Function
import numpy as np

import baracuda as bk

weights = np.tile(np.array([[0.5], [1.0], [6.0]], dtype=np.float32), (1, 32))
codes, scales = bk.quantize_mx(weights, mx_format="mxfp4")
x = np.ones((2, 32), dtype=np.float32)
print(bk.mx_matmul(x, codes, scales, mx_format="mxfp4"))

# %% Plan
y = bk.empty((2, 3), bk.f32)
plan = bk.MxMatmulPlan.select(None, bk.MxMatmulDescriptor(2, 3, 32, bk.MxFormat.MXFP4, element=bk.f32))
args = bk.MxMatmulArgs(x=bk.upload(x), codes=bk.upload(codes), scales=bk.upload(scales), y=y)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))

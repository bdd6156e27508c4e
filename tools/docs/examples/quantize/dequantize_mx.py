# %% Function
import numpy as np

import baracuda as bk

codes = np.tile(np.arange(16, dtype=np.uint8), (1, 1)) * 17  # every value of e2m1 twice
scales = np.array([[128]], dtype=np.uint8)  # 2^1
print(bk.dequantize_mx(codes, scales, mx_format="mxfp4"))

# %% Plan
y = bk.empty((1, 32))
plan = bk.DequantizeMxPlan.select(None, bk.DequantizeMxDescriptor(1, 32, bk.MxFormat.MXFP4, element=bk.f32))
plan.run(None, None, bk.DequantizeMxArgs(codes=bk.upload(codes), scales=bk.upload(scales), y=y))
print(bk.download(y))

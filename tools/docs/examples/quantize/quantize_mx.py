# %% Function
import numpy as np

import baracuda as bk

x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(2, 32)
codes, scales = bk.quantize_mx(x, mx_format="mxfp4", scale_rule="floor")
print(codes.shape, scales.ravel())

# %% Plan
found, exponents = bk.empty((2, 16), bk.u8), bk.empty((2, 1), bk.u8)
plan = bk.QuantizeMxPlan.select(None, bk.QuantizeMxDescriptor(2, 32, bk.MxFormat.MXFP4, element=bk.f32))
plan.run(None, None, bk.QuantizeMxArgs(x=bk.upload(x), codes=found, scales=exponents))
print(bk.download(exponents).ravel())

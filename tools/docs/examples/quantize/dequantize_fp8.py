# %% Function
import numpy as np

import baracuda as bk

x = np.linspace(-4, 4, 2 * 128, dtype=np.float32).reshape(2, 128)
codes, scale = bk.quantize_fp8(x, scaling="rows")
print(bk.dequantize_fp8(codes, scale, scaling="rows")[:, :3])

# %% Plan
y = bk.empty((2, 128))
descriptor = bk.DequantizeFp8Descriptor(2, 128, bk.Fp8Scaling.ROWS, bk.f32, element=bk.e4m3fn)
plan = bk.DequantizeFp8Plan.select(None, descriptor)
plan.run(None, None, bk.DequantizeFp8Args(x=bk.upload(codes), scale=bk.upload(scale), y=y))
print(bk.download(y)[:, :3])

# %% Function
import numpy as np

import baracuda as bk

x = np.linspace(-4, 4, 4 * 256, dtype=np.float32).reshape(4, 256)
y, scale = bk.quantize_fp8(x, scaling="groups")
print(y.shape, scale)

# %% Plan
codes, scales = bk.empty((4, 256), bk.e4m3fn), bk.empty((8,))
plan = bk.QuantizeFp8Plan.select(None, bk.QuantizeFp8Descriptor(4, 256, bk.Fp8Scaling.GROUPS, element=bk.f32))
plan.run(None, None, bk.QuantizeFp8Args(x=bk.upload(x), y=codes, scale=scales))
print(bk.download(scales))

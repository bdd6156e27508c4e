# %% Function
import numpy as np

import baracuda as bk

codes = np.array([[0, 7, 15, 8], [15, 15, 7, 0]], dtype=np.uint8)  # rows 0 and 1
packed = codes[:1] | codes[1:] << 4
absmax = np.array([[2.0, 1.0], [0.5, 4.0]], dtype=np.float32)  # blocks of 2
print(bk.nf4_dequantize(packed, absmax))

# %% Plan
w = bk.empty((2, 4))
plan = bk.Nf4DequantizePlan.select(None, bk.Nf4DequantizeDescriptor(2, 4, 2, element=bk.f32))
plan.run(None, None, bk.Nf4DequantizeArgs(bk.upload(packed), bk.upload(absmax), w))
print(bk.download(w))

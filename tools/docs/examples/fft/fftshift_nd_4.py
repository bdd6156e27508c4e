# %% Functions
import numpy as np

import baracuda as bk

x = np.arange(10, dtype=np.float32).reshape(2, 5)
print(bk.fft.fftshift(x, axes=1))
print(bk.fft.ifftshift(x, axes=1))

# %% Plan
plan = bk.FftShiftNdPlan.select(None, bk.FftShiftNdDescriptor((2, 5), (1,), element=bk.f32))
y = bk.empty((2, 5), bk.f32)
plan.run(None, None, bk.FftShiftNdArgs(x=bk.upload(x), y=y))
print(bk.download(y))

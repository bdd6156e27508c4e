# %% Functions
import numpy as np

import baracuda as bk

x = np.array([1, 2, -1, 3, 0.5], np.float32)
print(bk.fft.rfft(x))
print(bk.fft.ihfft(x))
print(bk.fft.fft(x))  # all elements
print(bk.fft.rfft2(np.outer(x, x), s=(2, 4)))

# %% Axes, lengths and signs in one call
print(bk.fft_r2c(x, lengths=(6,), axes=(0,), normalization=1))

# %% Plan of rows
plan = bk.RfftPlan.select(None, bk.RfftDescriptor(5, 1, element=bk.f32))
y = bk.empty((1, 3), bk.c32)
plan.run(None, bk.workspace(plan), bk.RfftArgs(x=bk.upload(x.reshape(1, 5)), y=y))
print(bk.download(y))

# %% Plan of arrays
plan = bk.RfftNdPlan.select(None, bk.RfftNdDescriptor((2, 4), 1, element=bk.f32))
y = bk.empty((1, 2, 3), bk.c32)
plan.run(None, bk.workspace(plan), bk.RfftNdArgs(x=bk.upload(np.ones((1, 2, 4), np.float32)), y=y))
print(bk.download(y))

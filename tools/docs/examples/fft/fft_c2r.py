# %% Functions
import numpy as np

import baracuda as bk

x = np.array([3, 1 - 2j, 0.5], np.complex64)
print(bk.fft.irfft(x))  # of even length
print(bk.fft.irfft(x, n=5))
print(bk.fft.hfft(x, n=5))
print(bk.fft.irfft2(np.outer(x, x)))

# %% Axes, lengths and signs in one call
print(bk.fft_c2r(x, lengths=(5,), axes=(0,), normalization=2))

# %% Plan of rows
plan = bk.IrfftPlan.select(None, bk.IrfftDescriptor(4, 1, element=bk.f32))
y = bk.empty((1, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.IrfftArgs(x=bk.upload(x.reshape(1, 3)), y=y))
print(bk.download(y))

# %% Plan of arrays
plan = bk.IrfftNdPlan.select(None, bk.IrfftNdDescriptor((2, 4), 1, element=bk.f32))
y = bk.empty((1, 2, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.IrfftNdArgs(x=bk.upload(np.ones((1, 2, 3), np.complex64)), y=y))
print(bk.download(y))

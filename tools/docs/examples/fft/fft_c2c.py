# %% Functions
import numpy as np

import baracuda as bk

x = np.array([1, 2 + 1j, -1, 3j], np.complex64)
y = bk.fft.fft(x)
print(y)
print(bk.fft.ifft(y))
print(bk.fft.fft2(np.outer(x, x), norm="ortho"))
print(bk.fft.fftshift(bk.fft.fftfreq(5)))

# %% Axes, lengths and signs in one call
print(bk.fft_c2c(x, lengths=(6,), axes=(0,), inverse=True, normalization=2))

# %% Plan of rows
plan = bk.FftPlan.select(None, bk.FftDescriptor(4, 1, element=bk.c32))
x = bk.upload(x.reshape(1, 4))
y = bk.empty((1, 4), bk.c32)
plan.run(None, bk.workspace(plan), bk.FftArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of arrays, in place
plan = bk.FftNdPlan.select(None, bk.FftNdDescriptor((2, 2), 1, inverse=True, element=bk.c32))
image = bk.upload(np.ones((1, 2, 2), np.complex64))
plan.run(None, bk.workspace(plan), bk.FftNdArgs(x=image, y=image))
print(bk.download(image))

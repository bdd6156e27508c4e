# %% Functions
import numpy as np

import baracuda as bk

x = np.array([1, 2, -1, 3, 0.5], np.float32)
w = np.array([1, 0, -1], np.float32)
print(bk.fft.fftconvolve(x, w))
print(bk.fft.fftconvolve(x, w, mode="same"))

# %% A window of the convolution
print(bk.fft_convolve(x, w, starts=(-1,), lengths=(4,)))

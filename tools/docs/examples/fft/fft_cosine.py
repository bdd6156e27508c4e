# %% Functions
import numpy as np

import baracuda as bk

x = np.array([1, 2, -1, 3, 0.5], np.float32)
y = bk.fft.dct(x, norm="ortho")
print(y)
print(bk.fft.idct(y, norm="ortho"))
print(bk.fft.dst(x, type=4))
print(bk.fft.dctn(np.outer(x, x), axes=(0, 1)))

# %% Factors in one call
print(bk.fft_cosine(x, 2, scale=0.5, edge_out=2**-0.5))

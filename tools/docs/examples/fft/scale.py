# %% A factor of a transform is the norm of the functions
import numpy as np

import baracuda as bk

x = np.array([1, 2 + 1j, -1, 3j], np.complex64)
print(bk.fft.fft(x, norm="forward"))

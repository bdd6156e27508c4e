# %% Function
import numpy as np

import baracuda as bk

x = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
weight = np.full((1, 2, 3, 3), -1, dtype=np.int8)
print(bk.convolution_sums(x, weight, padding=1, padding_after=1))

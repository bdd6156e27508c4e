# %% Function
import numpy as np

import baracuda as bk

x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
weight = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
dy = np.ones((1, 1, 3, 3), dtype=np.float32)
dweight, dbias = bk.convolution_backward_filter(dy, x, weight)
print(dweight, dbias)

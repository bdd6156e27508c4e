# %% Function
import numpy as np

import baracuda as bk

x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
weight = np.ones((1, 1, 3, 3), dtype=np.float32)
print(bk.convolution_transpose(x, weight, stride=2, output_padding=1))

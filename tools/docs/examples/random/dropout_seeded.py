# %% Function
import numpy as np

import baracuda as bk

x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
y = bk.dropout(x, p=0.25, seed=3)
print(y)
print(bk.dropout(x, x, p=0.25, seed=3))  # with a residual
print(bk.dropout(x, p=0.25, channel_axis=0, seed=3))  # whole rows

# %% Gradient
print(bk.dropout_backward(np.ones_like(x), p=0.25, seed=3))

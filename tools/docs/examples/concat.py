# %% Function
import numpy as np

import baracuda as bk

a, b, c = np.array([[1, 2]], np.float32), np.array([[3, 4], [5, 6]], np.float32), np.array([[7, 8]], np.float32)
y = bk.concatenate([a, b, c])
print(y)
print(bk.stack([a, c], axis=-1))

# %% Gradient
print(*bk.split(y, [1, 3]), sep="\n")

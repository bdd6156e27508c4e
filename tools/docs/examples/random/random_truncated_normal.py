# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.truncated_normal((2, 3), 0, 1, -1, 1, generator=rng))
print(bk.random.truncated_normal((2, 3), 0, 1, -1, 1, generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.truncated_normal_like(x, low=-1, high=1, seed=7))  # the start of the stream of 7, as above

# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.normal((2, 3), 0, 2, generator=rng))
print(bk.random.normal((2, 3), 0, 2, generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.normal_like(x, stddev=2, seed=7))  # the start of the stream of 7, as above

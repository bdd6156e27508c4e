# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.laplace((2, 3), 1, 0.5, generator=rng))
print(bk.random.laplace((2, 3), 1, 0.5, generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.laplace_like(x, location=1, scale=0.5, seed=7))  # the start of the stream of 7, as above

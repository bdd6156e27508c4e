# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.geometric((2, 3), 0.25, generator=rng))
print(bk.random.geometric((2, 3), 0.25, generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.geometric_like(x, p=0.25, seed=7))  # the start of the stream of 7, as above

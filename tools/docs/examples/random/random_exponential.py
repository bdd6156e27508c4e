# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.exponential((2, 3), 2, generator=rng))
print(bk.random.exponential((2, 3), 2, generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.exponential_like(x, rate=2, seed=7))  # the start of the stream of 7, as above

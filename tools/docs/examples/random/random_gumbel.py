# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.gumbel((2, 3), generator=rng))
print(bk.random.gumbel((2, 3), generator=rng))  # goes on

x = np.zeros((2, 3), np.float32)
print(bk.gumbel_like(x, seed=7))  # the start of the stream of 7, as above

# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.integers(1, 7, 10, generator=rng))
print(bk.integers_like(np.zeros(4, np.int32), low=1, high=7, seed=7))

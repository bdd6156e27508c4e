# %% Function
import numpy as np

import baracuda as bk

rng = bk.Generator(7)
print(bk.random.bernoulli(0.25, 10, generator=rng))
print(bk.bernoulli_like(np.zeros(10, np.uint8), p=0.25, seed=7))

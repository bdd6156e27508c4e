# %% Function
import numpy as np

import baracuda as bk

p = np.array([0, 0.25, 0.5, 0.75, 1], np.float32)
print(bk.random.bernoulli(p, generator=bk.Generator(7)))
print(bk.bernoulli(p, seed=7))

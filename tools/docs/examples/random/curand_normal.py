# %% Function

import baracuda as bk

print(bk.random.normal(5, seed=7))

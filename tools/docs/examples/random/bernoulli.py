# %% Plan
import numpy as np

import baracuda as bk

y = bk.empty(10, bk.bool_)
of = bk.RandomDescriptor(bk.RandomKind.BERNOULLI, (10,), 0.25, seed=3, element=bk.bool_)
bk.RandomPlan.select(None, of).run(None, None, bk.RandomArgs(y))
print(bk.download(y).astype(np.uint8))

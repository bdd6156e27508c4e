# %% Function

import baracuda as bk

state = bk.Generator(7).state()  # seed and block, for calls that a CUDA graph records
print(bk.random.normal(3, generator=state))
print(bk.random.normal(3, generator=state))  # each call has advanced it
bk.random.advance(state, 1000)

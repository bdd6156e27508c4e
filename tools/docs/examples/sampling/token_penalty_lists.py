# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[2.0, -1.0, 0.5]], dtype=np.float32)
tokens = np.array([[1, 0, 1, -1]], dtype=np.int32)  # -1 is padding
print(bk.token_penalty_lists(logits, tokens, repetition=2.0, frequency=0.5))

# %% Plan
y = bk.empty((1, 3), bk.f32)
plan = bk.TokenPenaltyListsPlan.select(None, bk.TokenPenaltyListsDescriptor(1, 3, 4, 2.0, 0.5, element=bk.f32))
args = bk.TokenPenaltyListsArgs(logits=bk.upload(logits), tokens=bk.upload(tokens), y=y)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))

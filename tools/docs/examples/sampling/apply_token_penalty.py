# %% Plan
import numpy as np

import baracuda as bk

logits = bk.upload(np.array([[2.0, -1.0, 0.5]], dtype=np.float32))
counts = bk.upload(np.array([[1, 2, 0]], dtype=np.int32))
of = bk.TokenPenaltyDescriptor(1, 3, repetition=2.0, frequency=0.5, presence=0.25, element=bk.f32)
plan = bk.TokenPenaltyPlan.select(None, of)
plan.run(None, bk.workspace(plan), bk.TokenPenaltyArgs(logits=logits, counts=counts))
print(bk.download(logits))

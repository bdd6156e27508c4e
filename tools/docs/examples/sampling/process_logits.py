# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[2.0, -1.0, 0.5]], dtype=np.float32)
counts = np.array([[1, 2, 0]], dtype=np.int32)
allowed = np.array([[0b101]], dtype=np.int32)  # tokens 0 and 2
y = bk.process_logits(logits, counts=counts, allowed=allowed, repetition=2.0, frequency=0.5)
print(y[0, [0, 2]], np.isneginf(y[0, 1]))  # token 1 is not allowed

# %% Plan
y = bk.empty((1, 3), bk.f32)
plan = bk.ProcessLogitsPlan.select(None, bk.ProcessLogitsDescriptor(1, 3, words=1, repetition=2.0, element=bk.f32))
args = bk.ProcessLogitsArgs(logits=bk.upload(logits), counts=bk.upload(counts), allowed=bk.upload(allowed), y=y)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y)[0, [0, 2]])

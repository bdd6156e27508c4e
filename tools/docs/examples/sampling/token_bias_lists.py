# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[2.0, -1.0, 0.5]], dtype=np.float32)
tokens, bias = np.array([[1, 2]], dtype=np.int32), np.array([[3.0, -0.5]], dtype=np.float32)
print(bk.token_bias_lists(logits, tokens, bias))
print(np.isneginf(bk.token_bias_lists(logits, tokens)))  # without bias the tokens are banned

# %% Plan
y = bk.empty((1, 3), bk.f32)
plan = bk.TokenBiasListsPlan.select(None, bk.TokenBiasListsDescriptor(1, 3, 2, element=bk.f32))
args = bk.TokenBiasListsArgs(logits=bk.upload(logits), tokens=bk.upload(tokens), bias=bk.upload(bias), y=y)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))

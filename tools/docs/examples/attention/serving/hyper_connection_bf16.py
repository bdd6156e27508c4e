# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.array([[[1, 2, 3, 4], [4, 3, 2, 1]]], np.float32))  # batch, streams, features
gamma = bk.upload(np.ones(4, np.float32), bk.bf16)
zeros = bk.zeros(2, bk.f32)
out = bk.empty((1, 2, 4), bk.f32)
of = bk.HyperConnectionDescriptor(batch=1, hidden_dim=4, n_streams=2, element=bk.f32)
plan = bk.HyperConnectionPlan.select(None, of)
args = bk.HyperConnectionArgs(
    x=x, rmsnorm_weight=gamma, h_pre=zeros, h_post=zeros, h_res=bk.zeros((2, 2), bk.f32), out=out
)
plan.run(None, None, args)
print(bk.download(out).round(3))  # the mean of the streams, and their normalised mean

# %% Function
streams, one = np.ones((1, 2, 4), np.float32), np.ones(4, np.float32)
weights, mixing = np.zeros(2, np.float32), np.zeros((2, 2), np.float32)
print(bk.hyper_connection(streams, one, weights, weights, mixing).round(3))

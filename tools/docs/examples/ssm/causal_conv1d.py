# %% Plan
import numpy as np

import baracuda as bk

x = np.array([[[1, 2, 3, 4]]], dtype=np.float32)  # (batch, channels, tokens)
plan = bk.CausalConv1dPlan.select(None, bk.CausalConv1dDescriptor(1, 1, 4, 2, element=bk.f32))
weight = np.array([[10, 1]], dtype=np.float32)
args = bk.CausalConv1dArgs(x=bk.upload(x), weight=bk.upload(weight), bias=None, y=bk.empty((1, 1, 4), bk.f32))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.y))

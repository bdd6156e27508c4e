# %% Plan
import numpy as np

import baracuda as bk

x = np.array([[[1, 2, 3, 4]]], dtype=np.float32)  # (batch, channels, tokens)
plan = bk.CausalConv1dPlan.select(None, bk.CausalConv1dDescriptor(1, 1, 4, 2, element=bk.f32))
weight = np.array([[10, 1]], dtype=np.float32)
args = bk.CausalConv1dArgs(x=bk.upload(x), weight=bk.upload(weight), bias=None, y=bk.empty((1, 1, 4), bk.f32))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.y))

# %% Plan of the gradient
descriptor = bk.CausalConv1dBackwardDescriptor(1, 1, 4, 2, element=bk.f32)
plan = bk.CausalConv1dBackwardPlan.select(None, descriptor)
dx, dw = bk.empty((1, 1, 4), bk.f32), bk.zeros((1, 2), bk.f32)  # dw is added to
args = bk.CausalConv1dBackwardArgs(x=args.x, weight=args.weight, dy=bk.upload(np.ones_like(x)), dx=dx, dw=dw)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dx), bk.download(dw))

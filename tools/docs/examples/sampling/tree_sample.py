# %% Function
import numpy as np

import baracuda as bk

parents = np.array([[0, 0, 0, 1]], dtype=np.int32)  # nodes 1 and 2 follow the root, node 3 follows node 1
tokens = np.array([[9, 0, 1, 2]], dtype=np.int32)
target = np.array([[[0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4], [0.2, 0.7, 0.1]]], dtype=np.float32)
print(bk.tree_sample(target, tokens, parents, seed=7))

# %% Plan
found, path, accepted = bk.empty((1, 4), bk.i32), bk.empty((1, 4), bk.i32), bk.empty((1,), bk.i32)
plan = bk.TreeSamplePlan.select(None, bk.TreeSampleDescriptor(1, 4, 3, seed=7, element=bk.f32))
target, tokens, parents = (bk.upload(each) for each in (target, tokens, parents))
args = bk.TreeSampleArgs(
    target_probs=target, node_tokens=tokens, parents=parents, tokens=found, path=path, accepted=accepted
)
plan.run(None, bk.workspace(plan), args)
print(bk.download(found), bk.download(path), bk.download(accepted))

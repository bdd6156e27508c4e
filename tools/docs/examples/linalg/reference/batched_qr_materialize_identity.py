# %% Plan
import baracuda as bk

descriptor = bk.BatchedQrMaterializeIdentityDescriptor(1, 2, element=bk.f64)
plan = bk.BatchedQrMaterializeIdentityPlan.select(None, descriptor)
args = bk.BatchedQrMaterializeIdentityArgs(q=bk.empty((1, 2, 2), bk.f64))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.q))

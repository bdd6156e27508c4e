# SPDX-License-Identifier: Apache-2.0
"""The reference's plans and symbols, on host lists of addresses."""

import numpy as np
import pytest

import baracuda as bk
import baracuda.optim as optim

from . import references

# Beyond 655,360 elements the reference updates nothing; 88 tensors make a launch.
SIZES = (0, 1, 257, 700_001)
MANY = (5,) * 90 + (0,) * 3 + (4097, 3) * 50


class Lists:
    """Lists of parameters, gradients and f32 states of some sizes, and float64 values of the first two."""

    def __init__(self, device, dtype, sizes, states=2):
        rng = np.random.default_rng(1)
        self.device = device
        self.p = [device.put(rng.standard_normal(n), dtype) for n in sizes]
        self.g = [device.put(rng.standard_normal(n), dtype) for n in sizes]
        self.s = [[device.put(np.zeros(n)) for n in sizes] for _ in range(states)]
        self.params, self.grads = (optim.TensorList(dtype, each) for each in (self.p, self.g))
        self.states = [optim.TensorList("f32", each) for each in self.s]

    def expect(self, name, bound, steps=1, **options):
        """Compare parameters with those of the formula after some steps from the state at this call."""
        expected = [getattr(references, name)(self.device.values(p), **options) for p in self.p]
        grads = [self.device.values(g) for g in self.g]

        def check():
            for p, g, each in zip(self.p, grads, expected):
                for _ in range(steps):
                    each.step(g)
                assert (np.abs(self.device.values(p) - each.p) <= bound * (1 + np.abs(each.p))).all()

        return check


@pytest.mark.parametrize("sizes", [SIZES, MANY], ids=["sizes", "many"])
@pytest.mark.parametrize(("dtype", "bound"), [("f32", 1e-4), ("f16", 1e-3), ("bf16", 1e-2)])
@pytest.mark.parametrize("mode", [optim.AdamMode.CLASSIC, optim.AdamMode.DECOUPLED])
def test_adam(device, sizes, dtype, bound, mode):
    lists = Lists(device, dtype, sizes)
    # A decay that f32 has: where g = -decay p, the rounding of another one would become a step of its own.
    check = lists.expect("Adam", bound, 2, lr=1e-2, weight_decay=0.125, decoupled=bool(mode))
    plan = optim.AdamStepPlan(optim.AdamConfig(lr=1e-2, weight_decay=0.125, mode=mode), library=device.library)
    for step in (1, 2):
        plan.step_with_f32_state(None, lists.params, lists.grads, *lists.states, step)
    check()


@pytest.mark.parametrize("sizes", [SIZES, MANY], ids=["sizes", "many"])
@pytest.mark.parametrize(("dtype", "bound"), [("f32", 1e-5), ("f16", 1e-3), ("bf16", 1e-2)])
def test_sgd(device, sizes, dtype, bound):
    lists = Lists(device, dtype, sizes, 1)
    check = lists.expect("SGD", bound, 3, lr=1e-2, momentum=0.9, dampening=0.2, weight_decay=0.1)
    plan = optim.SgdStepPlan(optim.SgdConfig(momentum=0.9, dampening=0.2, weight_decay=0.1), library=device.library)
    for step in range(3):
        plan.step_with_f32_momentum(None, lists.params, lists.grads, *lists.states, step == 0)
    check()


def test_sgd_of_the_reference(device):
    """grad_scale, decay after momentum, and without momentum no such decay and no change of the buffer."""
    values, grads = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.25, -1.0])
    for momentum in (0.9, 0.0):
        lists = Lists(device, "f32", (3,), 1)
        for ref, numbers in ((lists.p[0], values), (lists.g[0], grads), (lists.s[0][0], [7.0, 7.0, 7.0])):
            device.set(ref, numbers)
        config = optim.SgdConfig(
            lr=0.5, momentum=momentum, weight_decay=0.1, nesterov=True, wd_after_momentum=True, grad_scale=2.0
        )
        optim.SgdStepPlan(config, library=device.library).step(None, lists.params, lists.grads, *lists.states, False)
        v = momentum * 7 + 2 * grads
        update = 2 * grads + momentum * (v + 0.1 * values) if momentum else 2 * grads
        np.testing.assert_allclose(device.values(lists.p[0]), values - 0.5 * update, rtol=1e-6)
        np.testing.assert_allclose(device.values(lists.s[0][0]), v if momentum else 7.0, rtol=1e-6)


@pytest.mark.parametrize("sizes", [SIZES, MANY], ids=["sizes", "many"])
@pytest.mark.parametrize("mode", [optim.AdamMode.CLASSIC, optim.AdamMode.DECOUPLED])
def test_lamb(device, sizes, mode):
    """More tensors than a launch has do not share norms; repeated steps have the same bits."""
    found = []
    for _ in range(2):
        lists = Lists(device, "f32", sizes)
        check = lists.expect("Lamb", 5e-4, 2, lr=1e-2, weight_decay=0.1, decoupled=bool(mode))
        config = optim.LambConfig(lr=1e-2, weight_decay=0.1, mode=mode, max_global_grad_norm=0.0)
        plan = optim.LambStepPlan(config, library=device.library)
        workspace = device.poison((plan.workspace_bytes(len(sizes), sum(sizes)),), "u8")
        for step in (1, 2):
            plan.step(None, workspace, lists.params, lists.grads, *lists.states, step, 1.0)
        check()
        found.append([device.bits(p) for p in lists.p])
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def test_lamb_scales_gradients_by_their_norm(device):
    moments = []
    for norm in (1.0, 4.0):
        lists = Lists(device, "f32", (100,))
        plan = optim.LambStepPlan(library=device.library)
        workspace = device.poison((plan.workspace_bytes(1, 100),), "u8")
        plan.step(None, workspace, lists.params, lists.grads, *lists.states, 1, norm)
        moments.append(device.values(lists.s[0][0]))
    np.testing.assert_allclose(moments[0], 4 * moments[1], rtol=1e-6)


def test_refusals(device):
    lists, short, half = (Lists(device, d, n) for d, n in (("f32", (3, 4)), ("f32", (3,)), ("bf16", (3, 4))))
    plan, empty = optim.AdamStepPlan(library=device.library), optim.TensorList("f32")
    with pytest.raises(optim.EmptyTensorListError, match="params is empty"):
        plan.step(None, empty, empty, empty, empty, 1)
    with pytest.raises(optim.LengthMismatchError, match="grads has sizes"):
        plan.step(None, lists.params, short.grads, *lists.states, 1)
    with pytest.raises(bk.UnsupportedError, match="call step_with_f32_state"):
        plan.step(None, half.params, half.grads, *half.states, 1)
    with pytest.raises(bk.UnsupportedError, match="exp_avg is of bf16, must be of f32"):
        plan.step_with_f32_state(None, half.params, half.grads, half.params, half.states[1], 1)
    with pytest.raises(bk.InvalidProblemError, match="step is 0"):
        plan.step(None, lists.params, lists.grads, *lists.states, 0)
    with pytest.raises(bk.InvalidProblemError, match=r"beta1 is 1\.5"):
        optim.AdamStepPlan(optim.AdamConfig(beta1=1.5), library=device.library).step(
            None, lists.params, lists.grads, *lists.states, 1
        )
    with pytest.raises(bk.UnsupportedError, match="no baracuda_optim_lamb_bf16_run"):
        workspace = device.poison((1000,), "u8")
        optim.LambStepPlan(library=device.library).step(None, workspace, half.params, half.grads, *half.states, 1, 1.0)
    with pytest.raises(bk.InvalidProblemError, match="workspace has 8 bytes"):
        optim.LambStepPlan(library=device.library).step(
            None, device.poison((8,), "u8"), lists.params, lists.grads, *lists.states, 1, 1.0
        )

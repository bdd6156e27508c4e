# SPDX-License-Identifier: Apache-2.0
"""Each rule over 100 steps against float64, on tensors of all sizes, aligned or not, and what a step must not do."""

import weakref

import numpy as np
import pytest

import baracuda as bk
import baracuda.optim as optim

from . import references
from .references import CASES, IDS

SIZES = (0, 1, 7, 255, 256, 257, 4096, 4097, 9001)
# Relative error of a parameter after 100 steps: rounding of f32 numbers in each step, and of what a dtype stores.
BOUND = {"f32": 2e-5, "f64": 1e-12, "f16": 0.02, "bf16": 0.1}


def run(device, name, options, dtype, sizes=SIZES, steps=100, rng=None, offset=0, **storage):
    """The optimiser, its parameters and the references after some steps of the same gradients."""
    rng = rng or np.random.default_rng(7)
    start = [rng.standard_normal(n) for n in sizes]
    params = [device.put(x, dtype, offset=offset) for x in start]
    grads = [device.poison((n,), dtype) for n in sizes]
    opt = getattr(optim, name)(params, **options, **storage)
    expected = [getattr(references, name)(device.values(p), **options) for p in params]
    for _ in range(steps):
        for grad, each in zip(grads, expected):
            device.set(grad, rng.standard_normal(each.p.shape) + 0.1 * each.p)
        opt.step(grads)
        for grad, each in zip(grads, expected):
            each.step(device.values(grad))
    return opt, params, expected


def close(device, params, expected, bound):
    for p, each in zip(params, expected):
        np.testing.assert_allclose(device.values(p), each.p, rtol=bound, atol=bound)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_100_steps(device, name, options, dtype):
    # The sign of Lion's mean is not continuous: a difference in rounding may change it where the mean is near 0.
    opt, params, expected = run(device, name, options, dtype)
    bound = BOUND[dtype]
    if name == "Lion" and dtype == "f32":
        bad = [np.abs(device.values(p) - e.p) > bound * (1 + np.abs(e.p)) for p, e in zip(params, expected)]
        assert sum(b.sum() for b in bad) <= 1e-3 * sum(SIZES)
        return
    close(device, params, expected, bound)
    for k, each in enumerate(expected):
        for state, value in each.s.items():
            np.testing.assert_allclose(device.values(opt.state[k][state]), value, rtol=bound, atol=bound, err_msg=state)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", references.OPTIONS)
def test_16_bits(device, name, dtype):
    """A step rounds the parameter once."""
    rng, sizes = np.random.default_rng(3), (5, 4099)
    _, params, expected = run(device, name, {}, dtype, sizes, steps=1, rng=rng)
    unit = {"f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    for p, each in zip(params, expected):
        np.testing.assert_allclose(device.values(p), each.p, rtol=1.01 * unit, atol=1e-6)


@pytest.mark.parametrize("name", references.OPTIONS)
def test_unaligned_tensors_have_the_same_bits(device, name):
    found = []
    for offset in (0, 1):
        _, params, _ = run(device, name, {}, "f32", (1, 300, 5000), 3, np.random.default_rng(1), offset)
        found.append([device.bits(p) for p in params])
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("name", references.OPTIONS)
def test_lr_0_keeps_the_bits(device, name, dtype):
    """The bits of NaN, inf and -0 stay as well, whatever the gradient."""
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 65504.0, 2.0**-24])
    p, g = device.put(values, dtype), device.put([1, -0.0, 1, np.inf, 1, np.nan, 0, -1], dtype)
    before = device.bits(p)
    getattr(optim, name)([p], lr=0.0).step([g])
    np.testing.assert_array_equal(device.bits(p), before)


@pytest.mark.parametrize("name", references.OPTIONS)
def test_steps_are_deterministic_and_independent_of_the_other_tensors(device, name):
    sizes = (3000, 5, 9000)
    runs = [run(device, name, {}, "f32", sizes, 2, np.random.default_rng(2))[1] for _ in range(2)]
    for one, other in zip(*runs):
        np.testing.assert_array_equal(device.bits(one), device.bits(other))
    rng = np.random.default_rng(2)
    values, grads = rng.standard_normal(3000), rng.standard_normal(3000)
    many = [device.put(values) for _ in range(200)]
    alone = device.put(values)
    given = device.put(grads)
    getattr(optim, name)(many).step([given] * len(many))
    getattr(optim, name)([alone]).step([given])
    for each in many:
        np.testing.assert_array_equal(device.bits(each), device.bits(alone))


def test_many_tensors(device):
    """20,000 tensors of which some are empty, in one launch; fewer on fibers, which take a second for a thousand."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(0, 9, 500 if device.library.build_info.get("device") == "fibers" else 20_000)
    ends = np.cumsum(sizes)
    p, g = device.put(rng.standard_normal(ends[-1])), device.put(rng.standard_normal(ends[-1]))
    parts = [[_part(x, int(e - n), int(n)) for n, e in zip(sizes, ends)] for x in (p, g)]
    expected = references.AdamW(device.values(p))
    opt = optim.AdamW(parts[0])
    opt.step(parts[1])
    expected.step(device.values(g))
    np.testing.assert_allclose(device.values(p), expected.p, rtol=1e-5, atol=1e-6)
    assert len(opt._launches) == 1


def _part(ref, first, count):
    return bk.TensorRef(ref.ptr + 4 * first, (count,), ref.dtype, device=ref.device, owner=ref.owner)


def test_parameters_without_gradient_are_left_alone(device):
    """Their steps are counted apart."""
    rng = np.random.default_rng(5)
    params = [device.put(rng.standard_normal(50)) for _ in range(3)]
    expected = [references.Adam(device.values(p)) for p in params]
    opt = optim.Adam(params)
    for t in range(6):
        given = [None if (t + k) % (k + 1) else device.put(rng.standard_normal(50)) for k in range(3)]
        opt.step(given)
        for g, each in zip(given, expected):
            if g is not None:
                each.step(device.values(g))
    close(device, params, expected, 1e-5)
    assert [int(opt.state[k]["step"]) for k in range(3)] == [each.t for each in expected] == [6, 3, 2]


def test_groups(device):
    rng = np.random.default_rng(6)
    params = [device.put(rng.standard_normal(30), dtype) for dtype in ("f32", "f64", "f32")]
    grads = [device.put(rng.standard_normal(30), dtype) for dtype in ("f32", "f64", "f32")]
    rates = ((1, 0), (1, 0), (0.1, 0.9))
    expected = [references.SGD(device.values(p), lr=lr, momentum=m) for p, (lr, m) in zip(params, rates)]
    opt = optim.SGD([{"params": params[:2]}, {"params": [params[2]], "lr": 0.1, "momentum": 0.9}], lr=1.0)
    for _ in range(3):
        opt.step(grads)
        for g, each in zip(grads, expected):
            each.step(device.values(g))
    opt.param_groups[0]["lr"] = 0.5  # as schedulers do
    opt.step(grads)
    for g, each in zip(grads, expected):
        each.o["lr"] = 0.5 if each.o["lr"] == 1 else each.o["lr"]
        each.step(device.values(g))
    close(device, params, expected, 1e-5)


def test_gradients_that_move(device):
    rng = np.random.default_rng(8)
    p = device.put(rng.standard_normal(5000))
    each, opt = references.RMSprop(device.values(p)), optim.RMSprop([p])
    for _ in range(4):
        g = device.put(rng.standard_normal(5000))
        opt.step([g])
        each.step(device.values(g))
    close(device, [p], [each], 1e-5)


def test_state_dict_continues_a_run(device):
    rng = np.random.default_rng(9)
    values, grads = rng.standard_normal(700), [rng.standard_normal(700) for _ in range(6)]
    for name, options in CASES:
        p = device.put(values)
        opt = getattr(optim, name)([p], **options)
        for g in grads[:3]:
            opt.step([device.put(g)])
        saved = opt.state_dict()
        q = device.put(device.values(p))
        other = getattr(optim, name)([q])
        other.load_state_dict(saved)
        for g in grads[3:]:
            opt.step([device.put(g)])
        # The states of `saved` went on with `opt`: a second run from the start gives those of step 3.
        del other
        r = device.put(values)
        first = getattr(optim, name)([r], **options)
        for g in grads[:3]:
            first.step([device.put(g)])
        second = getattr(optim, name)([r])
        second.load_state_dict(first.state_dict())
        for g in grads[3:]:
            second.step([device.put(g)])
        np.testing.assert_array_equal(device.bits(r), device.bits(p), err_msg=name)


def test_an_optimiser_is_freed_at_once(device):
    """No cycle keeps its states until a garbage collection."""
    opt = optim.Adam([device.put(np.ones(9))])
    opt.step([device.put(np.ones(9))])
    alive = weakref.ref(opt)
    del opt
    assert alive() is None


def test_refusals(device):
    p, g = device.put(np.ones(4)), device.put(np.ones(4))
    with pytest.raises(bk.InvalidProblemError, match=r"lr is -1"):
        optim.Adam([p], lr=-1.0)
    with pytest.raises(bk.InvalidProblemError, match=r"betas\[1\] is 1"):
        optim.AdamW([p], betas=(0.9, 1.0))
    with pytest.raises(bk.InvalidProblemError, match="nesterov needs"):
        optim.SGD([p], nesterov=True)
    with pytest.raises(bk.InvalidProblemError, match="'betta' is no option"):
        optim.Adam([p], betta=3)
    with pytest.raises(bk.InvalidProblemError, match="twice"):
        optim.Adam([p, p])
    with pytest.raises(bk.InvalidProblemError, match="params is empty"):
        optim.Adam([])
    with pytest.raises(bk.UnsupportedError, match="dtype i32"):
        optim.Adam([device.put(np.ones(4), "i32")])
    with pytest.raises(bk.UnsupportedError, match="state_bits is 8"):
        optim.Adagrad([p], state_bits=8)
    with pytest.raises(bk.InvalidProblemError, match="grads has 2 entries"):
        optim.Adam([p]).step([g, g])
    with pytest.raises(bk.InvalidProblemError, match=r"the gradient of params\[0\] has dtype f64"):
        optim.Adam([p]).step([device.put(np.ones(4), "f64")])
    with pytest.raises(bk.InvalidProblemError, match="state_dict has other groups"):
        optim.Adam([p]).load_state_dict({"state": {}, "param_groups": []})
    np.testing.assert_array_equal(device.values(p), 1)

# SPDX-License-Identifier: Apache-2.0
"""Storage of weights and states: master weights, error words, stochastic rounding, states of 8 bits, averages."""

import numpy as np
import pytest

import baracuda as bk
import baracuda.optim as optim

from . import references
from .test_steps import run

SIZES = (0, 1, 255, 256, 257, 4099)


@pytest.mark.parametrize(("dtype", "rounding"), [("f16", "master"), ("bf16", "master"), ("bf16", "error")])
@pytest.mark.parametrize("name", ["AdamW", "SGD", "Lamb"])
def test_weights_of_f32(device, name, dtype, rounding):
    """100 steps lose nothing; the parameter is the f32 weight, rounded."""
    opt, params, expected = run(device, name, {"lr": 1e-2}, dtype, SIZES, rounding=rounding)
    for k, (p, each) in enumerate(zip(params, expected)):
        master = device.values(opt.state[k]["master"])
        if rounding == "error":
            high = device.bits(p).astype(np.int64) << 16
            master = (high + master.astype(np.int64)).astype(np.uint32).view(np.float32)
        np.testing.assert_allclose(master, each.p, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(device.values(p), master, rtol={"f16": 2.0**-11, "bf16": 2.0**-8}[dtype], atol=1e-7)


def test_error_words_are_exact(device):
    """Parameter and word hold any f32 number: with lr 0 neither changes, and -lr g is added exactly."""
    rng = np.random.default_rng(1)
    numbers = np.concatenate([rng.standard_normal(500) * 2.0 ** rng.integers(-30, 30, 500), [0, 1, -1, 1.00390625]])
    p, g = device.put(np.zeros(504), "bf16"), device.put(-numbers, "bf16")
    opt = optim.SGD([p], lr=1.0, rounding="error")
    total = np.zeros(504, np.float32)
    for lr in (1.0, 2.0**-9, 2.0**-12):
        opt.param_groups[0]["lr"] = lr
        opt.step([g])
        total = total - np.float32(lr) * device.values(g).astype(np.float32)
    high, low = device.bits(p).astype(np.int64) << 16, device.values(opt.state[0]["master"]).astype(np.int64)
    np.testing.assert_array_equal((high + low).astype(np.uint32).view(np.float32), total)


def test_weight_decay_does_not_vanish_in_bf16(device):
    """Steps of a thousandth of a unit in the last place: rounding to nearest keeps 1, the other storages decay."""
    found = {}
    for rounding in optim.optimizer.ROUNDINGS:
        p, g = device.put(np.ones(20_000), "bf16"), device.put(np.zeros(20_000), "bf16")
        opt = optim.AdamW([p], lr=1e-4, weight_decay=0.1, rounding=rounding)
        for _ in range(500):
            opt.step([g])
        found[rounding] = device.values(p).mean()
    assert found["nearest"] == 1
    for rounding in ("master", "error"):
        assert abs(found[rounding] - (1 - 1e-5) ** 500) < 2.0**-9
    # Standard error: the sum of 500 Bernoulli steps of 2^-8, over 20,000 elements.
    assert abs(found["stochastic"] - (1 - 1e-5) ** 500) < 6 * 2.0**-8 * np.sqrt(500 * 1e-5 * 256 / 20_000)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("scale", [1.0, 2.0**-17])
def test_stochastic_rounding_is_unbiased(device, dtype, scale):
    """Up with the probability of the remainder, in subnormal numbers of f16 as well; a wrong probability is seen."""
    n, step = 200_000, {"bf16": 2.0**-7, "f16": 2.0**-10}[dtype]
    step = max(step * scale, 2.0**-24) if dtype == "f16" else step * scale
    # p - lr g lies at a quarter of the way from 1 to the next number below: halved steps there.
    start = scale * np.ones(n) * 1.5
    for share in (0.25, 0.8):
        p, g = device.put(start, dtype), device.put(np.ones(n), dtype)
        optim.SGD([p], lr=share * step, rounding="stochastic", seed=11).step([g])
        down = (device.values(p) < start).mean()
        assert set(np.unique(device.values(p))) <= {start[0], start[0] - step}
        bound = 5 * np.sqrt(share * (1 - share) / n)
        assert abs(down - share) < bound and not abs(down - (share + 0.02)) < bound


def test_stochastic_rounding_by_seed_and_step(device):
    def bits(seed, steps=1):
        p, g = device.put(np.ones(5000), "bf16"), device.put(np.ones(5000), "bf16")
        opt = optim.SGD([p], lr=1e-3, rounding="stochastic", seed=seed)
        for _ in range(steps):
            opt.step([g])
        return device.bits(p)

    np.testing.assert_array_equal(bits(3), bits(3))
    assert (bits(3) != bits(4)).mean() > 0.1 and (bits(3, 2) != bits(3)).any()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Lion"])
def test_8_bits(device, name, dtype):
    """Near the run with f32 states: a code is off by at most one step of 1/127 of its block's largest magnitude."""
    options = {"SGD": {"momentum": 0.9, "lr": 0.01}, "Lion": {"lr": 1e-3}}.get(name, {"lr": 1e-2})
    rng = np.random.default_rng(2)
    opt, params, expected = run(device, name, options, dtype, SIZES, 20, rng, state_bits=8, rounding="master")
    for k, (p, each) in enumerate(zip(params, expected)):
        moved = np.abs(each.p - device.values(p))
        if p.numel:
            assert moved.mean() < 0.02 and np.isfinite(moved).all()
        for state in opt.state[k].values():
            if hasattr(state, "dtype") and state.dtype is bk.u8:
                assert state.numel == -(-p.numel // 256) * 260


def test_codes_of_8_bits(device):
    """Decoded states against the formulas, for a block of magnitudes over six orders."""
    g = np.concatenate([np.geomspace(1e-6, 1, 200), -np.geomspace(1e-6, 1, 200), np.zeros(7)])
    p, grad = device.put(np.zeros(407)), device.put(g)
    opt = optim.Adam([p], betas=(0.0, 0.0), state_bits=8)
    opt.step([grad])
    m, v = (decode(device.values(opt.state[0][name]), 407, name) for name in ("exp_avg", "exp_avg_sq"))
    most = np.array([np.abs(g[b : b + 256]).max() for b in (0, 256)]).repeat(256)[:407]
    x = g / most
    # Half a step of the code, 1 / 254, over the slope of the companding function.
    np.testing.assert_array_less(np.abs(m / most - x), (1 + np.abs(x)) ** 2 / 2 / 250 + 1e-7)
    root = (v / most**2) ** 0.25
    np.testing.assert_array_less(np.abs(root - np.abs(x) ** 0.5), 1 / 250)
    assert ((v == 0) == (g == 0)).all()


def decode(codes, n, name):
    """The states of 8 bits, from their definition."""
    blocks = -(-n // 256)
    raw = codes.astype(np.uint8)
    scale = raw[256 * blocks :].tobytes()
    scale = np.frombuffer(scale, np.float32).repeat(256)[:n].astype(np.float64)
    code = raw[:n].astype(np.float64)
    if name == "exp_avg_sq":
        return scale * (code / 255) ** 4
    q = (code - 128) / 127
    return scale * q / (2 - np.abs(q))


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", ["AdamW", "Lamb"])
def test_averages_of_weights(device, name, dtype):
    rng = np.random.default_rng(3)
    p, g = device.put(rng.standard_normal(5000), dtype), device.put(rng.standard_normal(5000), dtype)
    opt, each = getattr(optim, name)([p], ema_decay=0.9, lr=0.1), getattr(references, name)(device.values(p), lr=0.1)
    e = each.p
    for _ in range(10):
        opt.step([g])
        each.p = device.values(p) if dtype == "bf16" else each.p
        each.step(device.values(g))
        e = 0.9 * e + 0.1 * each.p
    bound = {"f32": 1e-5, "f64": 1e-12, "bf16": 0.1}[dtype]
    np.testing.assert_allclose(device.values(opt.state[0]["ema"]), e, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", references.OPTIONS)
def test_zeroed_gradients(device, name):
    p, q = (device.put(np.ones(300)) for _ in range(2))
    g, h = (device.put(np.full(300, 0.5)) for _ in range(2))
    getattr(optim, name)([p], zero_grads=True).step([g])
    getattr(optim, name)([q]).step([h])
    np.testing.assert_array_equal(device.bits(g), 0)
    np.testing.assert_array_equal(device.bits(p), device.bits(q))


@pytest.mark.parametrize("name", references.OPTIONS)
def test_found_inf_skips_the_step(device, name):
    """Weights, states and the count; gradients are cleared nevertheless."""
    rng = np.random.default_rng(4)
    p, g = device.put(rng.standard_normal(700)), device.put(rng.standard_normal(700))
    opt = getattr(optim, name)([p], zero_grads=True, ema_decay=0.5)
    opt.step([g])
    state = {key: device.values(value).copy() for key, value in opt.state[0].items() if hasattr(value, "dtype")}
    before, steps = device.bits(p), opt.state[0].get("step")
    device.set(g, np.full(700, np.inf))
    opt.step([g], found_inf=device.put([1.0]))
    np.testing.assert_array_equal(device.bits(p), before)
    np.testing.assert_array_equal(device.bits(g), 0)
    assert opt.state[0].get("step") == steps
    for key, value in state.items():
        np.testing.assert_array_equal(device.values(opt.state[0][key]), value, err_msg=key)
    device.set(g, rng.standard_normal(700))
    opt.step([g], found_inf=device.put([0.0]))
    assert (device.bits(p) != before).any() and opt.state[0].get("step") == (2 if steps else None)


@pytest.mark.parametrize("name", references.OPTIONS)
def test_scalars_on_the_device(device, name):
    """lr, scale and the number of the step, as by value."""
    rng = np.random.default_rng(5)
    values, grads = rng.standard_normal(900), [rng.standard_normal(900) for _ in range(3)]
    found = []
    for on_device in (False, True):
        p = device.put(values)
        lr = device.put(np.array(2.0**-7)) if on_device else 2.0**-7
        opt = getattr(optim, name)([p], lr=lr, capturable=on_device)
        for g in grads:
            scale = device.put([4.0]) if on_device else None
            opt.step([device.put(g * (4 if on_device else 1))], grad_scale=scale)
        found.append(device.bits(p))
    np.testing.assert_array_equal(*found)

# SPDX-License-Identifier: Apache-2.0
"""baracuda.optim beside torch.optim in float64: 100 steps of a model, state dicts of both, closures, clipping."""

import copy

import pytest
import torch

import baracuda as bk
import baracuda.optim as optim

CASES = [
    ("Adam", {}), ("Adam", {"weight_decay": 0.1, "maximize": True}), ("Adam", {"amsgrad": True}), ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "weight_decay": 0.2}), ("SGD", {}), ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3}), ("RMSprop", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1}), ("Adadelta", {"weight_decay": 0.1}),
    ("Adafactor", {}), ("Adafactor", {"weight_decay": 0.1, "lr": 1.0, "d": 1.5}),
]  # fmt: skip
IDS = [f"{name}-{'-'.join(options) or 'plain'}" for name, options in CASES]


def parameters():
    made = torch.Generator().manual_seed(5)
    shapes = [(40, 30), (30,), (3, 5, 70), (1,), ()]
    return [torch.randn(s, dtype=torch.float64, generator=made).requires_grad_() for s in shapes]


def loss_of(params, t):
    made = torch.Generator().manual_seed(t)
    return sum((p.sin() * torch.randn(p.shape, dtype=p.dtype, generator=made)).sum() for p in params)


def steps(opt, params, first, last):
    for t in range(first, last):
        opt.zero_grad()
        loss_of(params, t).backward()
        opt.step()


def close(mine, theirs, **bounds):
    for p, q in zip(mine, theirs):
        torch.testing.assert_close(p, q, **({"rtol": 1e-10, "atol": 1e-12} | bounds))


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_100_steps(name, options):
    mine, theirs = parameters(), parameters()
    ours, peer = getattr(optim, name)(mine, **options), getattr(torch.optim, name)(theirs, **options)
    steps(ours, mine, 0, 100)
    steps(peer, theirs, 0, 100)
    close(mine, theirs)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_state_dicts_are_exchanged(name, options):
    """Each optimizer continues from the state of the other after 5 steps."""
    mine, theirs = parameters(), parameters()
    ours, peer = getattr(optim, name)(mine, **options), getattr(torch.optim, name)(theirs, **options)
    steps(ours, mine, 0, 5)
    steps(peer, theirs, 0, 5)
    own, other = copy.deepcopy(ours.state_dict()), copy.deepcopy(peer.state_dict())
    assert own["state"].keys() == other["state"].keys()
    for k, state in other["state"].items():
        assert {key for key, value in state.items() if value is not None} == own["state"][k].keys()
    ours.load_state_dict(other)
    peer.load_state_dict({**other, "state": own["state"]})
    steps(ours, mine, 5, 10)
    steps(peer, theirs, 5, 10)
    close(mine, theirs)


@pytest.mark.parametrize("options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.3}])
def test_muon(options):
    """The steps agree within the rounding of bf16: torch's iterations are in bf16 as well."""
    shapes = [(40, 24), (24, 40), (16, 16), (40, 24)]
    made = torch.Generator().manual_seed(6)
    mine = [torch.randn(s, generator=made).requires_grad_() for s in shapes]
    theirs = [p.detach().clone().requires_grad_() for p in mine]
    start = [p.detach().clone() for p in mine]
    ours, peer = optim.Muon(mine, lr=0.02, **options), torch.optim.Muon(theirs, lr=0.02, **options)
    for t in range(5):
        for params, opt in ((mine, ours), (theirs, peer)):
            opt.zero_grad()
            generator = torch.Generator().manual_seed(t)
            for p in params:
                p.grad = torch.randn(p.shape, generator=generator)
            opt.step()
    for p, q, x in zip(mine, theirs, start):
        assert (p - q).norm() < 0.02 * (q - x).norm()


def test_modules_and_closures():
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
    peer = copy.deepcopy(model)
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(1))
    losses = []
    for each, library in ((model, optim), (peer, torch.optim)):
        opt = library.AdamW(each.parameters(), lr=0.1)

        def closure(each=each, opt=opt):
            opt.zero_grad()
            loss = each(x).square().mean()
            loss.backward()
            return loss

        losses.append([opt.step(closure).item() for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    named = optim.SGD(model.named_parameters(), lr=0.1)
    assert len(named.param_groups[0]["params"]) == 4


def test_frozen_parameters_and_other_layouts():
    """No gradient is none; channels-last weights are updated in their own order."""
    p = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last).requires_grad_()
    frozen, g = torch.ones(3, requires_grad=True), torch.randn(4, 3, 2, 2)
    q = p.detach().clone().requires_grad_()
    mine, peer = optim.Adam([p, frozen]), torch.optim.Adam([q])
    for _ in range(3):
        p.grad, q.grad = g.contiguous(), g.clone()
        mine.step()
        peer.step()
    torch.testing.assert_close(p, q)
    assert frozen.tolist() == [1, 1, 1] and p.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, float("inf")])
def test_norm_and_clipping(order):
    params = parameters()
    loss_of(params, 1).backward()
    peers = [p.detach().clone().requires_grad_() for p in params]
    for p, q in zip(params, peers):
        q.grad = p.grad.clone()
    mine = optim.clip_grad_norm_(params, 0.5, order)
    theirs = torch.nn.utils.clip_grad_norm_(peers, 0.5, order)
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=0)
    close([p.grad for p in params], [q.grad for q in peers])
    optim.clip_grad_value_(params, 1e-3)
    torch.nn.utils.clip_grad_value_(peers, 1e-3)
    close([p.grad for p in params], [q.grad for q in peers])


def test_max_norm_in_the_step_is_clipping_before_it():
    mine, theirs = parameters(), parameters()
    ours, peer = optim.Adam(mine, max_norm=0.1), torch.optim.Adam(theirs)
    for t in range(5):
        for params, opt in ((mine, ours), (theirs, peer)):
            opt.zero_grad()
            loss_of(params, t).backward()
            if opt is peer:
                torch.nn.utils.clip_grad_norm_(theirs, 0.1)
            opt.step()
    close(mine, theirs)


def test_scale_and_found_inf():
    """A step that found inf, as torch.amp.GradScaler reports it, changes nothing and does not count."""
    mine, theirs = parameters(), parameters()
    ours, peer = optim.AdamW(mine), torch.optim.AdamW(theirs)
    for t, found in enumerate((0.0, 1.0, 0.0)):
        ours.zero_grad()
        (loss_of(mine, t) * 1024).backward()
        ours.grad_scale, ours.found_inf = torch.tensor(1024.0), torch.tensor(found)
        ours.step()
        if not found:
            steps(peer, theirs, t, t + 1)
    close(mine, theirs)
    assert ours.state_dict()["state"][0]["step"].item() == 2


def test_refusals():
    p = torch.ones(3, requires_grad=True)
    p.grad = torch.ones(3)
    with pytest.raises(bk.UnsupportedError, match="differentiable"):
        optim.Adam([p], differentiable=True)
    with pytest.raises(bk.InvalidProblemError, match="must be a matrix"):
        optim.Muon([p])
    with pytest.raises(bk.UnsupportedError, match="must be without gaps"):
        optim.Adam([torch.ones(6)[::2]])

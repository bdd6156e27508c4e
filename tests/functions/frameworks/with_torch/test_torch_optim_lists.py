# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors whose tables are kept between calls: what may change in between, and what must not be mistaken."""

import threading
import weakref

import pytest
import torch

import baracuda as bk
import baracuda.optim as optim
from baracuda.optim._tensors import TensorReader, reader_of


@pytest.fixture(params=["compare", "addresses"], autouse=True)
def reader(request, monkeypatch):
    """A reader with PyTorch's comparison of addresses, and one without it."""
    found = reader_of(torch.empty(1))
    if request.param == "addresses":
        monkeypatch.setattr(found, "_compare", None)
    return found


def norm(*grads):
    return torch.cat([g.detach().reshape(-1).double() for g in grads]).norm().float()


def check(*grads):
    torch.testing.assert_close(optim.get_total_norm(list(grads)), norm(*grads), rtol=1e-6, atol=0)


def test_new_values_and_new_addresses():
    for _ in range(3):
        grads = [torch.randn(n) for n in (5, 1, 5000)]
        check(*grads)
        grads[1].mul_(100)
        check(*grads)
        check(grads[0].clone(), *grads[1:])


def test_the_address_alone_is_no_key():
    x = torch.arange(1.0, 25.0)  # of which halves are numbers, too
    square = x[:16].view(4, 4)
    views = [x[:5], x[:10], x, x[:5], square, square.t(), x[:0], x.view(torch.bfloat16), x]
    for view in views:
        check(view)
    check(x[:5], x[5:10])
    check(x[5:10], x[:5])
    with pytest.raises(bk.UnsupportedError, match="must be without gaps"):
        optim.get_total_norm([x[:10:2]])


def test_the_order_of_dtypes():
    for _ in range(2):
        a, b = torch.randn(300), torch.randn(70).bfloat16()
        check(a, b)
        check(b, a)


def test_more_lists_than_are_kept():
    lists = [[torch.randn(n), torch.randn(3)] for n in range(1, 12)]
    for _ in range(2):
        for each in lists:
            check(*each)


def test_clipping_of_moved_gradients():
    params = [torch.ones(n, requires_grad=True) for n in (3, 700)]
    for _ in range(3):
        for p in params:
            p.grad = torch.randn(p.shape)
        before = [p.grad.clone() for p in params]
        found = optim.clip_grad_norm_(params, 0.5)
        torch.testing.assert_close(found, norm(*before), rtol=1e-6, atol=0)
        for p, g in zip(params, before):
            torch.testing.assert_close(p.grad, g * (0.5 / (norm(*before) + 1e-6)), rtol=1e-5, atol=1e-7)
        optim.clip_grad_value_(params, 1e-3)
        assert all(p.grad.abs().max() <= 1e-3 for p in params)


def test_gradients_are_not_kept_alive():
    g = torch.randn(100)
    gone = weakref.ref(g)
    optim.clip_grad_norm_([torch.nn.Parameter(torch.ones(3))], 1.0)
    optim.get_total_norm([g])
    del g
    assert gone() is None


def test_tensors_without_memory():
    g, other = torch.randn(64), torch.randn(64)
    check(g)
    g.untyped_storage().resize_(0)
    with pytest.raises(bk.InvalidProblemError, match=r"params\[0\] is NULL"):
        optim.get_total_norm([g])
    check(other)
    with pytest.raises(bk.InvalidProblemError):
        optim.get_total_norm([torch.empty(64, device="meta")])
    check(torch.empty(0), other)
    check(torch.empty(0), torch.randn(64))


def test_threads():
    """No thread moves the table that another one reads."""
    grads = [[torch.full((5000,), float(k))] for k in range(1, 5)]
    wrong = []

    def work(mine):
        wrong.extend(k for k in range(200) if abs(optim.get_total_norm(mine) / norm(*mine) - 1) > 1e-6)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in grads]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.parametrize("groups", [1, 2])
def test_steps_of_moved_gradients_and_parameters(groups):
    shapes = [(40, 30), (30,), (3, 5, 7), ()]
    mine = [torch.randn(s).requires_grad_() for s in shapes]
    theirs = [p.detach().clone().requires_grad_() for p in mine]
    split = [{"params": p} for p in ([mine] if groups == 1 else [mine[:2], mine[2:]])]
    ours, peer = optim.AdamW(split), torch.optim.AdamW(theirs)
    for t in range(6):
        for p, q in zip(mine, theirs):
            p.grad = torch.randn(p.shape)
            if t == 2 and p.ndim == 2:
                p.grad = torch.randn(p.shape[::-1]).t()  # in another layout than its parameter
            q.grad = p.grad.clone()
        if t == 4:
            mine[1].data = mine[1].detach().clone()
        ours.step()
        peer.step()
    for p, q in zip(mine, theirs):
        torch.testing.assert_close(p.detach(), q.detach(), rtol=1e-5, atol=1e-6)


def test_refused_gradients():
    p = torch.ones(4, requires_grad=True)
    opt = optim.SGD([p], lr=0.5)
    opt.step([torch.ones(4)])
    for wrong in (torch.ones(4).bfloat16(), torch.ones(2, 2), torch.ones(5)):
        with pytest.raises(bk.InvalidProblemError, match="the gradient of params"):
            opt.step([wrong])
    opt.step([torch.ones(4)])
    assert p.tolist() == [0.0] * 4


def test_memory_of_a_gradient_that_becomes_another_one():
    memory = torch.ones(64)
    p = torch.ones(4, requires_grad=True)
    opt = optim.SGD([p], lr=0.5)
    opt.step([memory[:4]])
    for wrong in (memory[:3], memory.view(torch.bfloat16)[:4], memory[:4].view(2, 2)):
        with pytest.raises(bk.InvalidProblemError, match="the gradient of params"):
            opt.step([wrong])
    opt.step([memory[:4]])
    opt.step([memory[:8:2]])  # strides of its own
    assert p.tolist() == [-0.5] * 4


def test_lists_that_c_does_not_read():
    class Own(torch.Tensor):
        pass

    x = torch.randn(6)
    reader = TensorReader(torch)
    assert reader.layout([x, x.as_subclass(Own)]) is None and reader.forms([x, x.as_subclass(Own)]) is None
    for _ in range(2):
        with pytest.raises(bk.InvalidProblemError, match="gradient 0 cannot be viewed"):
            optim.get_total_norm([torch.eye(2).to_sparse()])
        check(torch.eye(2))
    assert reader.forms([torch.ones(2, dtype=torch.complex64).imag]) is not None
    assert reader.forms([torch.ones(2, dtype=torch.complex64).conj().imag]) is None
    assert not reader.are_at([None], [x.data_ptr()]) and not reader.are_at([x], [])
    check(x.as_subclass(Own))

# SPDX-License-Identifier: Apache-2.0
"""Generators, the functions of baracuda.random, and its plans."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest

import baracuda as bk

SHAPE = (3, 5)


def host(array):
    return bk.download(array) if isinstance(array, bk.TensorRef) else np.asarray(array)


needs_sort = pytest.mark.needs_ops("argsort_i64", "index_select_f32")
needs_scan = pytest.mark.needs_ops("scan_cumsum_f64", "cast_f32_f64")


def test_a_generator_goes_on_and_repeats():
    first, again = bk.Generator(7), bk.Generator(7)
    a, b = (host(bk.random.normal(SHAPE, generator=first)) for _ in range(2))
    assert (a != b).all()
    np.testing.assert_array_equal(host(bk.random.normal(SHAPE, generator=again)), a)
    np.testing.assert_array_equal(host(bk.random.normal(SHAPE, generator=again)), b)
    np.testing.assert_array_equal(host(bk.random.normal(SHAPE, seed=7)), a)
    assert first.block == again.block == 8  # 15 numbers of 32 bits are 4 blocks


@pytest.mark.needs_ops("random_bits_u32", "random_bits_i64")
def test_calls_of_any_width_use_different_words():
    """f64 takes two words a number: words of successive calls do not overlap."""
    g = bk.Generator(1)
    drawn = [host(bk.random.bits(n, generator=g, dtype=t)) for n, t in ((5, "i64"), (3, "u32"), (4, "i64"))]
    words = np.concatenate([d.view(np.uint32) for d in drawn])
    assert len(set(words.tolist())) == len(words)


def test_generators_are_copied_and_pickled():
    g = bk.Generator(3, block=5)
    for other in (pickle.loads(pickle.dumps(g)), copy.copy(g), copy.deepcopy(g)):
        assert (other.seed, other.block) == (3, 5) and other is not g
    assert repr(g) == "Generator(seed=3, block=5)"
    assert bk.Generator().seed != bk.Generator().seed
    assert len({child.seed for child in bk.Generator(1).spawn(9)}) == 9


def test_the_default_generator_can_be_seeded():
    bk.random.manual_seed(11)
    a = host(bk.random.uniform(4))
    bk.random.manual_seed(11)
    np.testing.assert_array_equal(host(bk.random.uniform(4)), a)
    assert (host(bk.random.uniform(4)) != a).any()


def test_threads_take_different_numbers():
    g, found = bk.Generator(5), []

    def draw():
        found.extend(g.take(4) for _ in range(1000))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4000


def test_a_state_in_memory_gives_the_same_numbers_and_advances():
    state, g = bk.Generator(2**64 - 5, block=9).state(), bk.Generator(2**64 - 5, block=9)
    for dtype in ("f32", "f64", "f32"):
        np.testing.assert_array_equal(
            host(bk.random.uniform(SHAPE, dtype=dtype, generator=state)),
            host(bk.random.uniform(SHAPE, dtype=dtype, generator=g)),
        )
    assert host(state).view(np.uint64).tolist() == [g.seed, g.block]


def test_results_are_beside_like_and_go_to_out():
    like = np.empty((2, 2), np.float64)
    assert bk.random.normal((3,), like=like, seed=1).dtype == np.float64
    assert bk.random.normal((3,), like=like, seed=1, dtype="f32").dtype == np.float32
    out = np.empty(7, np.float32)
    if bk.default_library().backend == "cpu":
        assert bk.random.uniform(out=out, seed=1) is out
        np.testing.assert_array_equal(out, host(bk.random.uniform(7, seed=1)))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bk.random.uniform(3, 2.0, 1.0), "low is 2, must be below high"),
        (lambda: bk.random.normal(3, stddev=-1.0), "stddev is -1"),
        (lambda: bk.random.uniform(3, low="a"), "low is 'a', must be a real number"),
        (lambda: bk.random.uniform(-3), r"shape\[0\] is -3"),
        (lambda: bk.random.uniform(), "shape is None"),
        (lambda: bk.random.uniform(3, seed=1, generator=bk.Generator(1)), "generator and seed are both given"),
        (lambda: bk.random.uniform(3, generator=np.zeros(3, np.int64)), "generator is i64 of shape"),
        (lambda: bk.Generator(-1), "seed is -1"),
        (lambda: bk.random.bernoulli(np.zeros(3, np.float32), 3), "an array p gives the shape"),
        (lambda: bk.random.xavier_uniform((3,)), "must have two axes or more"),
        (lambda: bk.random.orthogonal((3,)), "must have two axes or more"),
        (lambda: bk.random.kaiming_normal((3, 4), nonlinearity="x"), "nonlinearity is 'x'"),
        (lambda: bk.random.multinomial(np.ones(3, np.float32), 4), "num_samples is 4, but there are 3"),
        (lambda: bk.random.choice(3, 4, False), "size is 4, but there are 3"),
    ],
)
def test_wrong_arguments(call, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        call()


def test_a_dtype_that_is_not_served():
    with pytest.raises(bk.UnsupportedError, match="dtype is i64, which uniform does not have"):
        bk.random.uniform(3, dtype="i64")


def test_empty_shapes():
    for shape in (0, (3, 0), ()):
        assert host(bk.random.normal(shape, seed=1)).shape == ((shape,) if isinstance(shape, int) else shape)


def test_initialisers_have_their_variance():
    shape = (200, 50, 3, 3)
    fan_in, fan_out = 450, 1800
    for make, variance in (
        (bk.random.xavier_uniform, 2 / (fan_in + fan_out)), (bk.random.xavier_normal, 2 / (fan_in + fan_out)),
        (bk.random.kaiming_uniform, 2 / fan_in), (bk.random.kaiming_normal, 2 / fan_in),
    ):  # fmt: skip
        sample = host(make(shape, seed=4))
        assert abs(sample.var() / variance - 1) < 0.02 and abs(sample.mean()) < 4 * math.sqrt(variance / sample.size)
    assert abs(host(bk.random.kaiming_normal(shape, mode="fan_out", nonlinearity="tanh", seed=4)).var()
               / ((5 / 3) ** 2 / fan_out) - 1) < 0.02  # fmt: skip


@needs_scan
@pytest.mark.needs_ops("linalg_qr_f64", "linalg_qr_f32")
@pytest.mark.parametrize("shape", [(30, 8, 2, 2), (8, 30), (9, 9), (5, 1), (1, 5), (1, 1, 1)])
def test_orthogonal_has_orthonormal_rows_or_columns(shape):
    for dtype, bound in (("f64", 1e-13), ("f32", 1e-5), ("bf16", 0.02)):
        made = bk.random.orthogonal(shape, 1.5, seed=3, dtype=dtype)
        assert tuple(made.shape) == shape and bk.tensor(made).dtype is getattr(bk, dtype)
        x = host(made).astype(np.float64).reshape(shape[0], -1)
        gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
        np.testing.assert_allclose(gram, 1.5**2 * np.eye(len(gram)), atol=bound * 1.5**2)


@pytest.mark.needs_ops("linalg_qr_f64")
def test_orthogonal_matrices_have_the_distribution_of_haar():
    """Traces of matrices of Haar's distribution have the mean 0 and the variance 1; those of Q, whose R has signs of
    either kind, have not."""
    generator = bk.Generator(5)
    traces = [np.trace(host(bk.random.orthogonal((6, 6), generator=generator, dtype="f64"))) for _ in range(4000)]
    assert abs(np.mean(traces)) < 5 / math.sqrt(4000)
    assert abs(np.var(traces) - 1) < 0.12
    plain = [np.trace(np.linalg.qr(host(bk.random.normal((6, 6), generator=generator)))[0]) for _ in range(400)]
    assert abs(np.mean(plain)) > 5 / math.sqrt(400)


@pytest.mark.needs_ops("linalg_qr_f32")
def test_orthogonal_goes_to_out_and_beside_like():
    out = bk.upload(np.ones((4, 3, 2), np.float16))
    assert bk.random.orthogonal(out=out, seed=2) is out
    x = host(out).astype(np.float64).reshape(4, 6)
    np.testing.assert_allclose(x @ x.T, np.eye(4), atol=5e-3)
    beside = host(bk.random.orthogonal((4, 3, 2), like=out, seed=2))
    np.testing.assert_array_equal(beside, host(out))
    assert host(bk.random.orthogonal((3, 0), seed=1)).shape == (3, 0)
    with pytest.raises(bk.UnsupportedError, match=r"random\.orthogonal: dtype is i32"):
        bk.random.orthogonal((3, 3), dtype="i32")


def test_multinomial_with_replacement():
    weights = np.array([[1, 0, 3, 0], [0, 0, 0, 5]], np.float32)
    y = host(bk.random.multinomial(weights, 100_000, True, seed=8))
    assert y.shape == (2, 100_000) and y.dtype == np.int64
    assert set(np.unique(y[0])) == {0, 2} and set(np.unique(y[1])) == {3}
    assert abs((y[0] == 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 100_000)
    assert (host(bk.random.multinomial(np.zeros(3, np.float32), 5, True, seed=8)) == -1).all()


@needs_sort
@needs_scan
def test_multinomial_without_replacement():
    """First draws follow the weights, draws of a row differ, and categories of weight 0 come last."""
    weights = np.broadcast_to(np.array([1, 0, 2, 5], np.float32), (40_000, 4)).copy()
    y = host(bk.random.multinomial(weights, 4, seed=9))
    assert (np.sort(y, 1) == np.arange(4)).all() and (y[:, 3] == 1).all()
    for category, share in ((0, 1 / 8), (2, 2 / 8), (3, 5 / 8)):
        assert abs((y[:, 0] == category).mean() - share) < 5 * math.sqrt(share * (1 - share) / 40_000)
    second = 1 / 8 * 2 / 7 + 5 / 8 * 2 / 3  # category 2 after another one
    assert abs((y[:, 1] == 2).mean() - second) < 5 * math.sqrt(second * (1 - second) / 40_000)


@needs_sort
def test_permutations_are_uniform():
    orders = {}
    g = bk.Generator(3)
    for _ in range(6000):
        key = tuple(host(bk.random.permutation(3, generator=g)).tolist())
        orders[key] = orders.get(key, 0) + 1
    assert len(orders) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in orders.values()) < 25.7  # chi-square, 5 degrees, 1e-4


@needs_sort
def test_permutations_of_arrays():
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    y = bk.random.permutation(x, axis=1, seed=2)
    assert (np.sort(y, 1) == x).all() and (y[:, 0] % 5 == y[0, 0]).all()
    z = x.copy()
    assert bk.random.shuffle(z, seed=2) is z and (np.sort(z, 0) == x).all()
    taken = host(bk.random.choice(10, 10, False, seed=4))
    assert sorted(taken.tolist()) == list(range(10))
    assert host(bk.random.choice(10, 1000, seed=4)).max() == 9
    assert bk.random.choice(x, 3, axis=1, seed=4).shape == (4, 3)


# --- plans -----------------------------------------------------------------------------------------------------------


def random_plan(kind, *params, shape=SHAPE, element="f32", seed=4):
    return bk.RandomPlan.select(None, bk.RandomDescriptor(kind, shape, *params, seed=seed, element=element))


def ran(plan):
    y = bk.empty(plan.descriptor.shape, plan.descriptor.element)
    plan.run(None, None, bk.RandomArgs(y))
    return host(y)


def test_runs_of_a_plan_continue_its_sequence():
    plan, fresh = (random_plan(bk.RandomKind.NORMAL, 1.0, 2.0) for _ in range(2))
    a, b = ran(plan), ran(plan)
    assert (a != b).all()
    np.testing.assert_array_equal(ran(fresh), a)
    np.testing.assert_array_equal(ran(pickle.loads(pickle.dumps(plan))), a)
    np.testing.assert_array_equal(host(bk.random.normal(SHAPE, 1.0, 2.0, seed=4)), a)
    assert plan.workspace_size == 0 and plan.precision_guarantee.deterministic


def test_plans_refuse_wrong_parameters():
    for kind, params, text in (
        (bk.RandomKind.UNIFORM, (2.0, 1.0), "must be below param2"),
        (bk.RandomKind.NORMAL, (0.0, 0.0), "param2 is 0.0"),
        (bk.RandomKind.BERNOULLI, (1.5,), "p is 1.5"),
    ):  # fmt: skip
        with pytest.raises(bk.InvalidProblemError, match=text):
            random_plan(kind, *params)
    with pytest.raises(bk.UnsupportedError, match="MULTINOMIAL"):
        random_plan(bk.RandomKind.MULTINOMIAL)
    with pytest.raises(bk.UnsupportedError, match="element is i64"):
        random_plan(bk.RandomKind.NORMAL, element="i64")


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_plans(p):
    x = np.linspace(-2, 2, 1000).astype(np.float32)
    x[7] = np.nan
    plan = bk.DropoutPlan.select(None, bk.DropoutDescriptor((1000,), p, seed=1, element="f32"))
    y, mask, dx = bk.empty(1000), bk.empty(1000, bk.bool_), bk.empty(1000)
    assert plan.workspace_size == 4000
    plan.run(None, bk.workspace(plan), bk.DropoutArgs(bk.upload(x), y, mask))
    kept = host(mask)
    scale = np.float32(1 / (1 - p)) if p < 1 else np.float32(0)
    np.testing.assert_array_equal(host(y), np.where(kept, x * scale, 0))
    assert kept.all() if p == 0 else abs(kept.mean() - (1 - p)) < 0.08
    back = bk.DropoutBackwardPlan.select(None, bk.DropoutBackwardDescriptor((1000,), p, element="f32"))
    back.run(None, None, bk.DropoutBackwardArgs(bk.upload(x), mask, dx))
    np.testing.assert_array_equal(host(dx), np.where(kept, x * scale, 0))
    with pytest.raises(bk.WorkspaceTooSmallError):
        plan.run(None, None, bk.DropoutArgs(bk.upload(x), y, mask))

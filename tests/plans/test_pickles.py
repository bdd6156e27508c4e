# SPDX-License-Identifier: Apache-2.0
"""Plans can be pickled to other processes; addresses of one process are not carried along."""

import concurrent.futures
import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import baracuda as bk
from baracuda._library import loader
from fakes import PLANS, FakeLibrary, example_args, example_descriptor

PREFERENCE = bk.PlanPreference(deterministic=True, max_workspace_bytes=10**6)


def state(plan):
    return plan.descriptor, plan.preference, plan.library, plan.workspace_size, plan.sku, plan.name


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", PLANS)
def test_plans_pickle(library, name, protocol):
    plan = getattr(bk, f"{name}Plan").select(None, example_descriptor(name), PREFERENCE)
    found = pickle.loads(pickle.dumps(plan, protocol))
    assert type(found) is type(plan)
    assert state(found) == state(plan)
    assert found.library is library


@pytest.mark.parametrize("name", PLANS)
def test_a_copy_is_the_plan(name):
    plan = getattr(bk, f"{name}Plan").select(None, example_descriptor(name), library=FakeLibrary())
    assert copy.copy(plan) is plan
    assert copy.deepcopy({"plan": [plan]})["plan"][0] is plan


def test_a_plan_that_has_run_pickles(library):
    plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (3,), element=bk.f32))
    x, y = bk.upload(np.array([1, -2, 3], np.float32)), bk.empty((3,))
    plan.run(None, None, bk.UnaryArgs(x, y))
    found = pickle.loads(pickle.dumps(plan))
    bk.clear(y)
    found.run(None, None, bk.UnaryArgs(x, y))
    bk.synchronize()
    assert bk.download(y).tolist() == [-1, 2, -3]


def test_plans_keep_no_stream():
    """`select` only checks its stream: plans selected for two streams have one pickle."""
    library, descriptor = bk.default_library(), example_descriptor("Unary")
    plans = [bk.UnaryPlan.select(stream, descriptor, library=library) for stream in (None, 7)]
    assert pickle.dumps(plans[0]) == pickle.dumps(plans[1])


def negate(plan, values):
    """The program of the other process."""
    x, y = bk.upload(np.array(values, np.float32)), bk.empty((len(values),))
    plan.run(None, None, bk.UnaryArgs(x, y))
    bk.synchronize()
    return bk.download(y).tolist(), plan.library.path


def test_plans_travel_to_other_processes(library):
    plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (3,), element=bk.f32))
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(negate, plan, [1, 2, 3]).result(120) == ([-1, -2, -3], library.path)


def test_functions_travel_to_other_processes():
    """Functions pickle by name, to a process that has prepared nothing."""
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = [pool.submit(function, x) for function in (bk.gelu, bk.softmax, bk.cumsum)]
        for done, function in zip(found, (bk.gelu, bk.softmax, bk.cumsum)):
            np.testing.assert_array_equal(done.result(120), function(x))


def test_sixteen_threads_share_a_plan(library):
    """Threads share a plan with operands of their own: by run, by a bound launch, and by pickled copies."""
    plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (1000,), element=bk.f32))

    def work(seed):
        values = np.random.default_rng(seed).standard_normal(1000, dtype=np.float32)
        x, y = bk.upload(values), bk.empty((1000,))
        own = pickle.loads(pickle.dumps(plan)) if seed % 4 == 0 else copy.deepcopy(plan)
        launch = own.bind(None, None, bk.UnaryArgs(x, y))
        for _ in range(50):
            bk.clear(y)
            launch() if seed % 2 else plan.run(None, None, bk.UnaryArgs(x, y))
            assert (bk.download(y) == -values).all()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, seed) for seed in range(16)]:
            done.result(120)


def test_a_library_that_is_gone_becomes_that_of_its_backend(library, monkeypatch, tmp_path):
    elsewhere = bk.Library(library.ffi, library.lib, str(tmp_path / "gone.so"), library.build_info)
    assert pickle.loads(pickle.dumps(elsewhere)).backend == library.backend
    monkeypatch.setattr(loader, "_candidates", lambda backend: [])
    monkeypatch.delenv("BARACUDA_LIB", raising=False)
    with pytest.raises(bk.LibraryNotFoundError, match=r"gone\.so"):
        pickle.loads(pickle.dumps(elsewhere))


def test_addresses_do_not_travel():
    args = example_args("Unary")
    for thing in (args.x, args):
        with pytest.raises(TypeError, match="a TensorRef is an address of this process and cannot be pickled"):
            pickle.dumps(thing)
        with pytest.raises(TypeError, match="nor copied with its memory"):
            copy.deepcopy(thing)
        assert copy.copy(thing) is args.x or copy.copy(thing).x is args.x


@pytest.mark.parametrize("name", PLANS)
def test_descriptors_and_preferences_pickle(name):
    for value in (example_descriptor(name), PREFERENCE, bk.PlanPreference()):
        assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)

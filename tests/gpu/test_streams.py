# SPDX-License-Identifier: Apache-2.0
"""Calls enqueue on the given stream and return; NULL is the calling thread's own stream."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cuda.bindings import runtime
from gpu_tools import (
    PER_THREAD,
    check,
    full_variants,
    gate,
    in_thread,
    is_waiting,
    prepare,
    problem_of,
    stream,
    variants,
)

from harness import cuda_check
from harness.launch import last_error


def text_unless_ok(library, status):
    return last_error(library) or f"status {status}" if status else ""


@pytest.mark.parametrize(("op", "workspace"), variants())
def test_returns_while_the_stream_is_blocked(library, op, workspace):
    """Calls neither wait, allocate nor copy synchronously, and nothing is written before the stream gets there."""
    case, problem = problem_of(op)
    warm = prepare(library, op, problem, workspace)  # a kernel's first use may load it, which waits for the device
    outcome = check(library, case, op, problem, warm, workspace, warm.run())
    prepared = prepare(library, op, problem, workspace)
    with stream() as handle:
        with gate() as held:
            held.hold(handle)
            assert in_thread(lambda: text_unless_ok(library, prepared.run(handle))) == ""
            assert is_waiting(handle)
            for name, buffer in prepared.given.items():
                buffer.check(f"{op}: {name} before its turn", written=False)
        cuda_check(runtime.cudaStreamSynchronize(handle))
        check(library, case, op, problem, prepared, workspace, reference=outcome)


@pytest.mark.parametrize(("op", "workspace"), full_variants())
def test_two_streams_at_once(library, op, workspace):
    problems = [problem_of(op, seed) for seed in (1, 2)]
    alone = [prepare(library, op, problem, workspace) for _, problem in problems]
    outcomes = [check(library, c, op, p, a, workspace, a.run()) for (c, p), a in zip(problems, alone)]
    prepared = [prepare(library, op, problem, workspace) for _, problem in problems]
    with stream() as one, stream() as two:
        with gate() as held:
            for handle, launch in zip((one, two), prepared):
                held.hold(handle)
                assert launch.run(handle) == 0
        for handle in (one, two):
            cuda_check(runtime.cudaStreamSynchronize(handle))
    for (case, problem), launch, outcome in zip(problems, prepared, outcomes):
        check(library, case, op, problem, launch, workspace, reference=outcome)


OWN_STREAM = [(op, w) for op, w in full_variants() if op.endswith("_f32") or "_f32_" in op]


@pytest.mark.parametrize(("op", "workspace"), OWN_STREAM)
def test_null_is_the_stream_of_the_thread(library, op, workspace):
    """With this thread's default stream blocked, a call here waits and a call in another thread runs."""
    case, problem = problem_of(op)
    warm = prepare(library, op, problem, workspace)
    outcome = check(library, case, op, problem, warm, workspace, warm.run())
    here, there = (prepare(library, op, problem, workspace) for _ in range(2))

    def elsewhere():
        assert there.run() == 0
        cuda_check(runtime.cudaStreamSynchronize(PER_THREAD))
        return True

    with gate() as held:
        held.hold(PER_THREAD)
        assert here.run() == 0
        assert is_waiting(PER_THREAD)
        assert in_thread(elsewhere)
        assert is_waiting(PER_THREAD)
    cuda_check(runtime.cudaStreamSynchronize(PER_THREAD))
    for launch in (here, there):
        check(library, case, op, problem, launch, workspace, reference=outcome)


def test_many_threads(library):
    """Each thread has its own stream and its own error text."""

    def body(k):
        op = ("segment_sum_f32", "alibi_backward_bf16", "binary_lerp_f16", "embedding_bag_f64")[k % 4]
        case, problem = problem_of(op, k)
        for _ in range(5):
            prepared = prepare(library, op, problem, None)
            assert prepared.run() == 0
            cuda_check(runtime.cudaStreamSynchronize(PER_THREAD))
            check(library, case, op, problem, prepared, None)
        null = library.ffi.NULL
        assert library.function("alibi_f32", "can_implement")(-k - 1, 1, 1, 1, null, null, null) == 2
        return library.ffi.string(library.lib.baracuda_kernels_last_error()).decode()

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(body, range(8)))
    assert [f"batch is {-k - 1}" in text for k, text in enumerate(texts)] == [True] * 8

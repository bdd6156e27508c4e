# SPDX-License-Identifier: Apache-2.0
"""The cost model: its bytes are those that training exchanges, and plans behave as they must."""

import pytest

import baracuda as bk
from baracuda.distributed import cost
from baracuda.distributed.mesh import Layout, Mesh
from distributed import ranks, training

MODEL = cost.Model(32768, 18, 2048, 16, 4, 6656, length=2048, batch=1024, micro=1)
MACHINE = cost.Machine(rate=4e14, memory=80 * 2**30, bandwidth=3.5e11, host_bandwidth=4e10)


class Counter:
    """An engine that adds up the bytes that a rank has to send."""

    def __init__(self, engine):
        self.engine, self.bytes = engine, 0.0

    def __getattr__(self, name):
        found = getattr(self.engine, name)
        if name not in ("all_reduce", "all_gather", "reduce_scatter", "transfer"):
            return found
        size = self.engine.size

        def call(first, second, *others):
            if name == "transfer":
                self.bytes += sum(view.nbytes for view, _, is_send in first if is_send)
            else:
                whole = (second if name == "all_gather" else first).nbytes
                self.bytes += (2 if name == "all_reduce" else 1) * (size - 1) / size * whole
            return found(first, second, *others)

        return call


def counted(comm, layout):
    mesh = Mesh(comm, Layout(**layout))
    groups = {"tensor": mesh.tensor, "context": mesh.context, "replicas": mesh.replicas}
    for each in groups.values():
        each.engine = Counter(each.engine)
    made = training.trainer(comm.library, mesh)
    made.run_step()
    made.run_step()  # a replay
    before = {name: each.engine.bytes for name, each in groups.items()}
    made._launch = None
    made.run_step()
    return {name: each.engine.bytes - before[name] for name, each in groups.items()}


@pytest.mark.parametrize(
    "layout",
    [{"data": 2}, {"data": 2, "zero": 2}, {"data": 2, "zero": 3}, {"tensor": 2}, {"context": 2},
     {"data": 2, "tensor": 2, "zero": 1}],
    ids=str,
)  # fmt: skip
@pytest.mark.needs_ops("attention_f32", "gemm_dense_f32", "optim_adam_f32", "merge_attention_states_f32")
def test_bytes_are_those_of_a_step(layout):
    """The bytes agree within the padding of units and the few numbers of losses and norms."""
    c = training.CONFIG
    model = cost.Model(
        c.vocabulary, c.layers, c.width, c.heads, c.kv_heads, c.hidden, length=16, batch=4, bytes_of_value=4
    )
    found = ranks.run(Layout(**layout).size, counted, layout)[0]
    for name, want in cost.sent_bytes(model, Layout(**layout)).items():
        assert found[name] == pytest.approx(want, rel=0.25, abs=4000), name


def test_plans():
    for count in (8, 64, 1024):
        found = cost.plan(MODEL, MACHINE, count)
        assert all(each.layout.size == count and each.memory <= MACHINE.memory for each in found)
        assert [each.seconds for each in found] == sorted(each.seconds for each in found)
        assert 0.4 < found[0].efficiency <= 1
        assert "% of linear" in str(found[0])
    alone = cost.cost(MODEL, MACHINE, Layout())
    assert alone.efficiency == 1 and not any(alone.sent.values())
    stages = [cost.cost(MODEL, MACHINE, Layout(data=8, zero=stage)).memory for stage in range(4)]
    assert stages == sorted(stages, reverse=True)
    assert cost.plan(MODEL, cost.Machine(4e14, 2**30, 3e11, 4e10), 8) == []
    with pytest.raises(bk.InvalidProblemError, match="kv_heads is 4, which 8 does not divide"):
        cost.cost(MODEL, MACHINE, Layout(tensor=8))
    slow = cost.Machine(rate=4e14, memory=80 * 2**30, bandwidth=1e9, host_bandwidth=1e9)
    assert cost.plan(MODEL, slow, 8)[0].layout.tensor == 1

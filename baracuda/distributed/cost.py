# SPDX-License-Identifier: Apache-2.0
"""A cost model of training a decoder-only transformer: time and memory of a step in each layout, for choosing one
before many GPUs are rented.

    compute   6 operations a weight and token, and 12 a query, feature and visible key, at the rate that one GPU reaches
    exchange  bytes that a rank sends, over the bandwidth of its group's links, and a latency for each message
    step      compute + exchanges of the tensor group + what compute does not hide of the others

A group has the links of a host while it fits into one: neighbours are in a tensor group, then in a context group, then
replicas. All-reduce sends 2 (n - 1) / n of its bytes, all-gather and reduce-scatter (n - 1) / n (Patarasu and Yuan
2009). The exchanges are those of baracuda.demo's training, and a test counts their bytes; rates are to be measured on
the machine (python -m tools.bench.distributed, and the tokens a second of one GPU).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from baracuda.distributed.mesh import Layout
from baracuda.errors import InvalidProblemError


@dataclasses.dataclass(frozen=True)
class Model:
    """Sizes of a transformer of Llama's kind, with a tied embedding, and of a step: `batch` texts of `length` tokens,
    of which a rank has `micro` in its memory at a time, and accumulates gradients; 0 is all of its texts.
    """

    vocabulary: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    length: int
    batch: int
    micro: int = 0
    bytes_of_value: int = 2
    bytes_of_states: int = 12  # of the optimiser for each parameter: a master weight and two moments

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads

    @property
    def layer_parameters(self) -> int:
        return self.width * (2 * self.width + 2 * self.kv_width + 3 * self.hidden + 2)

    @property
    def end_parameters(self) -> int:
        return self.width * (self.vocabulary + 1)

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.end_parameters

    def accumulations(self, data: int) -> int:
        """Batches of a step."""
        return self.batch // data // self.micro if self.micro else 1

    @property
    def operations(self) -> float:
        """Floating-point operations of a step."""
        per_token = 6 * self.parameters + 6 * self.layers * self.length * self.width
        return float(per_token) * self.batch * self.length


@dataclasses.dataclass(frozen=True)
class Machine:
    """Rates that one GPU and its links reach, in operations and in bytes a second."""

    rate: float  # of a whole training step on one GPU
    memory: float  # bytes
    bandwidth: float  # of a GPU to others of its host
    host_bandwidth: float  # of a GPU to other hosts
    latency: float = 1e-5  # seconds of a message between GPUs of a host
    host_latency: float = 3e-5
    gpus: int = 8  # of a host


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of a step in a layout: seconds, bytes that a rank sends in each group, and bytes that it needs."""

    layout: Layout
    seconds: float
    compute: float
    sent: dict[str, float]
    memory: float
    efficiency: float  # of linear scaling of one GPU's rate

    def __str__(self) -> str:
        at = self.layout
        return (
            f"data {at.data:4} context {at.context:3} tensor {at.tensor:2} zero {at.zero}: "
            f"{1e3 * self.seconds:9.1f} ms, {100 * self.efficiency:3.0f} % of linear, {self.memory / 2**30:6.1f} GiB"
        )


def sent_bytes(model: Model, layout: Layout) -> dict[str, float]:
    """Bytes that a rank sends in a step, in each of its groups."""
    size = model.bytes_of_value
    tokens = model.batch // layout.data * (model.length // layout.context)
    activation = float(tokens * model.width * size)
    local = model.layer_parameters * model.layers / layout.tensor + model.end_parameters / layout.tensor
    replicas = layout.data * layout.context
    reduce = 2 * _share(layout.tensor) * activation
    found = {"tensor": reduce * (4 * model.layers + 2), "context": 0.0, "replicas": 0.0}
    batches = model.accumulations(layout.data)
    passes = {0: 2, 1: 2, 2: batches + 1, 3: 3 * batches}[layout.zero]
    found["replicas"] = passes * _share(replicas) * local * size
    kv = float(2 * tokens * model.kv_width // layout.tensor)
    if layout.context > 1:
        steps = layout.context - 1
        found["context"] = model.layers * kv * (2 * steps * size + (steps + 1) * 4)  # gradients are f32
    return found


def memory_bytes(model: Model, layout: Layout) -> float:
    """Values, gradients, states of the optimiser, and activations that are saved for the backward."""
    local, size = model.parameters / layout.tensor, model.bytes_of_value
    replicas = layout.data * layout.context
    buffers = 2 * model.layer_parameters / layout.tensor * size + model.end_parameters / layout.tensor * size
    values = local * size / replicas + buffers if layout.zero == 3 else local * size
    gradients = local * size / replicas + buffers if layout.zero >= 2 else local * size
    states = local * model.bytes_of_states / (replicas if layout.zero else 1)
    texts = model.batch // layout.data // model.accumulations(layout.data)
    tokens = texts * (model.length // layout.context)
    divided = 2 * model.width + 2 * model.kv_width + 3 * model.hidden
    activations = tokens * size * model.layers * (4 * model.width + divided / layout.tensor)
    return values + gradients + states + activations


def cost(model: Model, machine: Machine, layout: Layout) -> Cost:
    """The cost of a layout that divides the model; InvalidProblemError if it does not."""
    for name, count, by in (
        ("heads", model.heads, layout.tensor), ("kv_heads", model.kv_heads, layout.tensor),
        ("hidden", model.hidden, layout.tensor), ("vocabulary", model.vocabulary, layout.tensor),
        ("batch", model.batch, layout.data * (model.micro or 1)), ("length", model.length, 2 * layout.context),
    ):  # fmt: skip
        if count % by:
            raise InvalidProblemError(f"{name} is {count}, which {by} does not divide")
    compute = model.operations / layout.size / machine.rate
    sent = sent_bytes(model, layout)
    spans = {"tensor": layout.tensor, "context": layout.tensor * layout.context, "replicas": layout.size}
    messages = {
        "tensor": 2 * (layout.tensor - 1) * (4 * model.layers + 2), "context": 3 * (layout.context - 1) * model.layers,
        "replicas": 3 * (layout.data * layout.context - 1),
    }  # fmt: skip
    seconds = {}
    for group, nbytes in sent.items():
        is_within = spans[group] <= machine.gpus
        bandwidth = machine.bandwidth if is_within else machine.host_bandwidth
        latency = machine.latency if is_within else machine.host_latency
        seconds[group] = nbytes / bandwidth + messages[group] * latency
    attention = 6.0 * model.layers * model.length * model.width * model.batch * model.length
    hidden_ring = max(0.0, seconds["context"] - attention / layout.size / machine.rate)
    hidden_replicas = max(0.0, seconds["replicas"] - 2 / 3 * compute)  # beside the backward
    step = compute + seconds["tensor"] + hidden_ring + hidden_replicas
    return Cost(layout, step, compute, sent, memory_bytes(model, layout), compute / step)


def plan(model: Model, machine: Machine, ranks: int) -> list[Cost]:
    """All layouts of so many ranks that fit into memory, the fastest first; equal times by the least memory."""
    found = []
    for layout in layouts(ranks):
        try:
            made = cost(model, machine, layout)
        except InvalidProblemError:
            continue
        if made.memory <= machine.memory:
            found.append(made)
    return sorted(found, key=lambda each: (round(each.seconds, 6), each.memory))


def layouts(ranks: int) -> Iterator[Layout]:
    """Every grid, with every stage of ZeRO that divides something."""
    for tensor in _divisors(ranks):
        for context in _divisors(ranks // tensor):
            data = ranks // tensor // context
            for zero in range(4 if data * context > 1 else 1):
                yield Layout(data, context, tensor, zero)


def _divisors(count: int) -> list[int]:
    return [k for k in range(1, count + 1) if count % k == 0]


def _share(size: int) -> float:
    return (size - 1) / size

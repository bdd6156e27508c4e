# SPDX-License-Identifier: Apache-2.0
"""One launch of a step: a table of parameters that share a group, dtype, device and number of steps."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.optim._arrays import Parameter, address_of, compute_dtype, framework_for, is_torch, number_of
from baracuda.optim._table import Table, stream_of
from baracuda.optim._tensors import reader_of
from baracuda.tensor import TensorRef

if TYPE_CHECKING:
    from baracuda.optim.optimizer import Optimizer

STATE_BITS = (32, 8)
STATE_BLOCK = 256
_ROUNDING = {"nearest": 0, "master": 0, "error": 1, "stochastic": 2}
_SLOTS = ("state0", "state1", "state2")


class Counter:
    """Steps done: a number, or an i64 on the device, from the first step on that needs it there."""

    __slots__ = ("array", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.array: Any = None

    def read(self) -> int:
        if self.array is None:
            return self.value
        return int(number_of(self.array))

    def move(self, like: Parameter) -> None:
        if self.array is None:
            self.array = like.framework.scalar(self.value, ElementKind.I64, like.array)


class Scalars:
    """Arrays on the device, or None, that a step reads beside its group."""

    __slots__ = ("found_inf", "grad_scale", "norm")

    def __init__(self, grad_scale: Any = None, found_inf: Any = None) -> None:
        self.grad_scale, self.found_inf, self.norm = grad_scale, found_inf, None


def on_device(value: Any, like: Parameter, dtype: ElementKind, name: str) -> Any:
    """A scalar as an array of one element on the parameter's device."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return like.framework.scalar(value, dtype, like.array)
    view = framework_for(value, name).view(value, name)
    if view.dtype is not dtype or view.numel != 1:
        raise InvalidProblemError(f"{name} has dtype {view.dtype} and {view.numel} elements, must be one {dtype}")
    if view.device not in (None, like.library.backend):
        raise InvalidProblemError(f"{name} is in {view.device} memory, the parameters in {like.library.backend}")
    return value


def make_states(optimizer: Optimizer, group: Mapping[str, Any], p: Parameter, state: dict[str, Any]) -> None:
    """Add the states that a parameter lacks."""
    dtype = compute_dtype(p.dtype)
    for name in optimizer.state_names(group):
        if name not in state:
            if group["state_bits"] == 8:
                blocks = -(-p.size // STATE_BLOCK)
                state[name] = p.bytes(blocks * (STATE_BLOCK + 4))
            else:
                state[name] = p.like(dtype, optimizer.initial(name, group))
    if p.dtype.bits == 16 and group["rounding"] in ("master", "error") and "master" not in state:
        is_master = group["rounding"] == "master"
        state["master"] = p.like(ElementKind.F32 if is_master else ElementKind.I16)
        if is_master:
            _copy(p, state["master"])
    if group["ema_decay"] is not None and "ema" not in state:
        state["ema"] = p.like(dtype)
        _copy(p, state["ema"])


def _copy(p: Parameter, target: Any) -> None:
    """Fill a state with the values of the parameter."""
    if is_torch(p.framework):
        target.copy_(p.array.detach())
    elif isinstance(target, TensorRef):
        from baracuda import functions

        functions.cast(p.array, target.dtype, out=target)
    else:
        p.framework.copy(target, p.array)


class Launch:
    def __init__(
        self, optimizer: Optimizer, group: dict[str, Any], params: Sequence[Parameter],
        states: Sequence[Mapping[str, Any]], numbers: Sequence[int], counter: Counter,
    ) -> None:  # fmt: skip
        # Not the optimiser itself: a cycle would keep memory of the device until a garbage collection.
        self.op, self.names = optimizer.op, optimizer.names
        self.group, self.params, self.states = group, list(params), list(states)
        self.numbers, self.counter = list(numbers), counter
        self.like = like = self.params[0]
        self.library, self.framework = like.library, like.framework
        self.symbol = f"optim_{optimizer.op}_{like.dtype.symbol}"
        self.function = self.library.function(self.symbol)
        self.table = Table(like, [p.size for p in self.params])
        self.arrays = [p.array for p in self.params]
        self.reader = reader_of(like.array)
        self.forms = None if self.reader is None else self.reader.forms(self.arrays)
        self.copies: list[Any] = []
        self._addresses: list[int] = []
        self._grads: list[int] = []
        self._known: list[weakref.ref[Any]] = []

    # --- gradients ---

    def has_not_moved(self, grads: list[Any]) -> bool:
        """Whether the table has the addresses of parameters and gradients already."""
        reader = self.reader
        return (
            reader is not None
            and reader.are_at(grads, self._grads)
            and reader.are_at(self.arrays, self._addresses)
            and self._are_known(grads)
        )  # fmt: skip

    def _are_known(self, grads: list[Any]) -> bool:
        """Whether gradients at the addresses of the last ones are these, or have their form: memory that was given back
        may have become a tensor of another dtype or size.
        """
        if all(known() is grad for known, grad in zip(self._known, grads)):
            return True
        assert self.reader is not None
        if self.forms is None or self.reader.forms(grads) != self.forms:
            return False
        self._known = list(map(weakref.ref, grads))
        return True

    def take(self, mine: list[Any]) -> None:
        """Point the table at the gradients, of which some may have moved since the last step."""
        if self.has_not_moved(mine):
            return
        if self.reader is not None:
            found, own = self.reader.addresses(mine), self.reader.addresses(self.arrays)
        else:
            found = [address_of(self.framework, grad) for grad in mine]
            own = self._addresses or [p.address for p in self.params]
        if self.reader is None and found == self._grads and own == self._addresses:
            return
        with self.framework.guard(self.like.array):
            stream = stream_of(self.framework, self.library, self.like.array)
            self.copies, addresses = [], found
            if not self._have_forms_of_parameters(mine, found):
                given = [p.gradient(grad) for p, grad in zip(self.params, mine)]
                self.copies = [grad for grad, original in zip(given, mine) if grad is not original]
                addresses = [address_of(self.framework, grad) for grad in given]
            if own == self._addresses:
                self.table.set_grads(addresses, stream)
            else:
                self.table.fill(self._lists(own, addresses), stream)
        if self.reader is not None:
            self._known = list(map(weakref.ref, mine))
        # Copies are made in each step.
        self._grads, self._addresses = [] if self.copies else found, own

    def _have_forms_of_parameters(self, grads: Sequence[Any], addresses: Sequence[int]) -> bool:
        """Whether all gradients can be used as they are; False for those that are to be looked at one by one."""
        reader = self.reader
        return reader is not None and self.forms is not None and all(addresses) and reader.forms(grads) == self.forms

    def _lists(self, own: list[int], grads: list[int]) -> dict[str, list[int]]:
        lists = {"params": own, "grads": grads}
        names = {slot: name for name, slot in self.names.items()}
        for slot in (*_SLOTS, "master", "ema"):
            name = names.get(slot, slot)
            if any(name in state for state in self.states):
                lists[slot] = [address_of(self.framework, s[name]) if name in s else 0 for s in self.states]
        return lists

    # --- the step ---

    def run(self, optimizer: Optimizer, scalars: Scalars) -> None:
        if self.library.backend == "cuda":
            with self.framework.guard(self.like.array):
                self._run(optimizer, scalars)
        else:
            self._run(optimizer, scalars)

    def _run(self, optimizer: Optimizer, scalars: Scalars) -> None:
        group, counter, like, table = self.group, self.counter, self.like, self.table
        compute = compute_dtype(like.dtype)
        stream = stream_of(self.framework, self.library, like.array)
        found_inf = on_device(scalars.found_inf, like, ElementKind.F32, "found_inf")
        scale = on_device(scalars.grad_scale, like, ElementKind.F32, "grad_scale")
        lr = optimizer.rate(group, like)
        lr_at = None if isinstance(lr, (int, float)) else on_device(lr, like, compute, "lr")
        if group["capturable"] or found_inf is not None:
            counter.move(like)
        decay, max_norm = group["ema_decay"], group["max_norm"]
        norm = None if scalars.norm is None or max_norm is None else on_device(scalars.norm, like, compute, "norm")
        status = self.function(
            table.pointer, table.n, table.chunks, *optimizer.hyper(group, like), 0.0 if lr_at is not None else lr,
            counter.value + 1, 1.0, 0.0 if max_norm is None else max_norm, 0.0 if decay is None else decay,
            group["maximize"], _ROUNDING[group["rounding"]] if like.dtype.bits == 16 else 0, group["state_bits"],
            optimizer.clears(group), group["seed"], self._at(lr_at), self._at(counter.array), self._at(scale),
            self._at(found_inf), self._at(norm), *self._workspace(), stream,
        )  # fmt: skip
        self.library.check(self.symbol, status)
        if counter.array is None:
            counter.value += 1
        else:
            advance = self.library.lib.baracuda_kernels_optim_advance_run
            self.library.check("optim_advance", advance(self._at(counter.array), self._at(found_inf), stream))

    def _workspace(self) -> tuple[Any, ...]:
        """C's workspace arguments, of an optimiser that takes one."""
        if self.op != "lamb":
            return ()
        size = self.library.function(f"optim_lamb_{self.like.dtype.symbol}", "workspace_size")
        nbytes = int(size(self.table.n, self.table.chunks))
        if not hasattr(self, "workspace"):
            self.workspace = self.framework.bytes(nbytes, self.like.array)
        return self._at(self.workspace), nbytes

    def _at(self, array: Any) -> Any:
        ffi = self.library.ffi
        if array is None:
            return ffi.NULL
        return ffi.cast("void *", address_of(framework_for(array, "a scalar"), array))

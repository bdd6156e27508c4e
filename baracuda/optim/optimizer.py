# SPDX-License-Identifier: Apache-2.0
"""The optimiser that torch.optim.Optimizer is, over one C function a rule (baracuda.optim.rules)."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from baracuda._call.scalars import as_real
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.optim._arrays import Parameter, is_torch
from baracuda.optim._launch import STATE_BITS, Counter, Launch, Scalars

_GRAD = operator.attrgetter("grad")
ROUNDINGS = ("nearest", "master", "error", "stochastic")
# Keys of param_groups that every optimiser has beside its own.
COMMON: dict[str, Any] = {
    "maximize": False, "capturable": False, "rounding": "nearest", "state_bits": 32, "ema_decay": None,
    "max_norm": None, "zero_grads": False, "seed": 0,
}  # fmt: skip


class Optimizer:
    """Base of the optimisers. `params` is an iterable of arrays, of (name, array) pairs, or of dicts with "params" and
    options of a group.

    Beside torch.optim's, these options belong to every optimiser, for each group of parameters:

    rounding    of f16 and bf16 parameters: "nearest"; "master", updated in f32 weights of which they are copies;
                "error", bf16 with 16 more bits of an f32 number; "stochastic", up with the probability of the remainder
    state_bits  8 for states of 8 bits with a scale for each 256 elements (Adam, AdamW, SGD, Lion)
    ema_decay   keeps averages of the weights, e += (1 - ema_decay) (p - e), in the state "ema"
    max_norm    clips gradients to this norm over all groups, as clip_grad_norm_ does, in the pass that reads them
    zero_grads  clears gradients as they are read
    capturable  counts steps on the device, so that a captured graph of a step may be replayed. Gradients must keep
                their addresses
    seed        of stochastic rounding

    lr may be an array of one number on the device, of f32 (f64 for f64 parameters).
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    names: ClassVar[Mapping[str, str]] = {}  # state -> its slot in the table
    signed: ClassVar[tuple[str, ...]] = ()
    op: ClassVar[str] = ""
    counts: ClassVar[bool] = True  # whether the state dict has "step"
    _step_supports_amp_scaling = True  # torch.amp.GradScaler leaves scale and found_inf to the step

    def __init__(self, params: Iterable[Any], **options: Any) -> None:
        for name in ("foreach", "fused"):  # of torch.optim: every step here is one launch
            options.pop(name, None)
        if options.pop("differentiable", False):
            raise UnsupportedError("differentiable is True, but a step is not recorded")
        if unknown := set(options) - {*COMMON, *self.defaults}:
            raise InvalidProblemError(f"{sorted(unknown)[0]!r} is no option of {type(self).__name__}")
        self._defaults = {**COMMON, **self.defaults, **options}
        self.param_groups: list[dict[str, Any]] = []
        self._params: list[list[Parameter]] = []
        self._states: list[list[dict[str, Any]]] = []
        self._counters: list[list[Counter]] = []
        self._launches: list[Launch] = []
        self._pattern: tuple[Any, ...] = ()
        self._whole: Launch | None = None  # the only launch, if every parameter had a gradient
        groups = list(params)
        if not groups:
            raise InvalidProblemError("params is empty, must have parameters")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # --- groups ---

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        given = group["params"]
        arrays = list(given) if isinstance(given, (list, tuple)) or hasattr(given, "__next__") else [given]
        names = [a[0] if isinstance(a, tuple) else f"params[{k}]" for k, a in enumerate(arrays)]
        arrays = [a[1] if isinstance(a, tuple) else a for a in arrays]
        made = {**self._defaults, **{key: value for key, value in group.items() if key != "params"}}
        if unknown := set(made) - set(self._defaults):
            raise InvalidProblemError(f"{sorted(unknown)[0]!r} is no option of {type(self).__name__}")
        known = {id(p.array) for each in self._params for p in each}
        if len({id(a) for a in arrays}) < len(arrays) or any(id(a) in known for a in arrays):
            raise InvalidProblemError("a parameter is twice in params")
        params = [Parameter(array, name) for array, name in zip(arrays, names)]
        self.check(made)
        for p in params:
            self._check_storage(made, p)
        self.param_groups.append({"params": [p.array for p in params], **made})
        self._params.append(params)
        self._states.append([{} for _ in params])
        self._counters.append([Counter() for _ in params])
        self._pattern, self._whole = (), None

    def check(self, group: Mapping[str, Any]) -> None:
        """Raise InvalidProblemError for options that no step can have."""
        for name in ("lr", "eps", "weight_decay", "momentum", "max_norm"):
            value = group.get(name)
            if isinstance(value, (int, float)) and not as_real(name, value) >= 0:
                raise InvalidProblemError(f"{name} is {value}, must be >= 0")
        for name in ("betas",):
            for k, value in enumerate(group.get(name, ())):
                if not 0 <= as_real(f"{name}[{k}]", value) < 1:
                    raise InvalidProblemError(f"{name}[{k}] is {value}, must be in [0, 1)")
        if group["rounding"] not in ROUNDINGS:
            raise InvalidProblemError(f"rounding is {group['rounding']!r}, must be one of {', '.join(ROUNDINGS)}")
        if group["state_bits"] not in STATE_BITS:
            raise InvalidProblemError(f"state_bits is {group['state_bits']!r}, must be 32 or 8")
        if (decay := group["ema_decay"]) is not None and not 0 <= as_real("ema_decay", decay) <= 1:
            raise InvalidProblemError(f"ema_decay is {decay}, must be in [0, 1]")

    def _check_storage(self, group: Mapping[str, Any], p: Parameter) -> None:
        if group["state_bits"] == 8 and (not self.signed or p.dtype.bits == 64):
            raise UnsupportedError(f"state_bits is 8, which {type(self).__name__} of {p.dtype} has not")
        if group["rounding"] == "error" and p.dtype.symbol == "f16":
            raise UnsupportedError(f"rounding is 'error', but {p.name} is f16: the word is of bf16 alone")

    def state_names(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """The states of a group, of `names`."""
        return tuple(self.names)

    def initial(self, name: str, group: Mapping[str, Any]) -> float:
        """The first value of a state."""
        return 0.0

    def kind(self, p: Parameter) -> Any:
        """Key in which the parameters of one launch agree, beside group, dtype and steps."""
        return None

    def rate(self, group: Mapping[str, Any], p: Parameter) -> Any:
        """The learning rate of a launch, of which p is a parameter."""
        return group["lr"]

    def hyper(self, group: Mapping[str, Any], p: Parameter) -> tuple[Any, ...]:
        """C's arguments between the table and those that all optimisers have."""
        raise NotImplementedError

    # --- steps ---

    def step(
        self, grads: Any = None, *, closure: Callable[[], Any] | None = None, grad_scale: Any = None,
        found_inf: Any = None, norm: Any = None,
    ) -> Any:  # fmt: skip
        """Update all parameters that have gradients; the others are left alone.

        grads: an array or None for each parameter, in their order; without it the parameters' `grad`. A callable is a
        closure, as in torch.optim: it is called first, and its result returned. Gradients are divided by grad_scale and
        nothing is updated where found_inf is not 0: arrays of one f32 on the device, or numbers; by default those that
        torch.amp.GradScaler sets. norm is that of the gradients after this division, for max_norm, where it is known,
        such as that of all ranks' gradients: an array of one number, of the dtype of the states.
        """
        if callable(grads):
            grads, closure = None, grads
        loss = self._evaluate(closure) if closure is not None else None
        scalars = Scalars(
            getattr(self, "grad_scale", None) if grad_scale is None else grad_scale,
            getattr(self, "found_inf", None) if found_inf is None else found_inf,
        )
        found = self._gradients(grads)
        self._prepare(found)
        if norm is not None:
            scalars.norm = norm
        elif any(group["max_norm"] is not None for group in self.param_groups):
            from baracuda.optim.clip import norm_of_launches

            scalars.norm = norm_of_launches(self._launches, scalars)
        for launch in self._launches:
            launch.run(self, scalars)
        return loss

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        framework = self._params[0][0].framework
        if not is_torch(framework):
            return closure()
        with framework.torch.enable_grad():  # type: ignore[attr-defined]
            return closure()

    def _gradients(self, grads: Any) -> list[Any]:
        """A gradient or None for each parameter."""
        if grads is None:
            arrays = self._whole.arrays if self._whole is not None else [p.array for each in self._params for p in each]
            try:
                return list(map(_GRAD, arrays))
            except AttributeError:
                return [getattr(array, "grad", None) for array in arrays]
        found = list(grads)
        count = sum(map(len, self._params))
        if len(found) != count:
            raise InvalidProblemError(f"grads has {len(found)} entries, must have one for each of {count} parameters")
        return found

    def _prepare(self, grads: list[Any]) -> None:
        if self._whole is not None and self._whole.has_not_moved(grads):
            return
        pattern = tuple([grad is not None for grad in grads])
        if pattern != self._pattern:
            self._make_launches(pattern)
        for launch in self._launches:
            launch.take([grads[k] for k in launch.numbers])

    def _make_launches(self, pattern: tuple[bool, ...]) -> None:
        """One launch for the parameters of a group that have gradients and agree in dtype, device and steps done."""
        buckets: dict[Any, list[tuple[int, int, int]]] = {}
        k = 0
        for g, params in enumerate(self._params):
            for i, p in enumerate(params):
                if pattern[k]:
                    key = (g, p.dtype, p.device, type(p.framework), self._counters[g][i].read(), self.kind(p))
                    buckets.setdefault(key, []).append((g, i, k))
                k += 1
        self._launches = []
        for members in buckets.values():
            g = members[0][0]
            counter = Counter(self._counters[g][members[0][1]].read())
            for _, i, _ in members:
                self._counters[g][i] = counter
                self._make_states(g, i)
            states = [self._states[g][i] for _, i, _ in members]
            own = [self._params[g][i] for _, i, _ in members]
            self._launches.append(Launch(self, self.param_groups[g], own, states, [k for *_, k in members], counter))
        self._pattern = pattern
        self._whole = self._launches[0] if len(self._launches) == 1 and all(pattern) else None

    def _make_states(self, g: int, i: int) -> None:
        from baracuda.optim._launch import make_states

        make_states(self, self.param_groups[g], self._params[g][i], self._states[g][i])

    def clears(self, group: Mapping[str, Any]) -> bool:
        """Whether the pass that reads the gradients clears them."""
        return bool(group["zero_grads"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the parameters' gradients, of frameworks that keep them there."""
        for p in (p for group in self._params for p in group):
            grad = getattr(p.array, "grad", None)
            if grad is None:
                continue
            if set_to_none:
                p.array.grad = None
            else:
                p.framework.zero(grad.detach_())

    # --- state ---

    @property
    def state(self) -> dict[int, dict[str, Any]]:
        """The state of each parameter, by its number in the order of all groups: arrays, and the steps done."""
        found: dict[int, dict[str, Any]] = {}
        for group in range(len(self._params)):
            for i, state in enumerate(self._states[group]):
                steps = self._counters[group][i].read()
                found[len(found)] = {**({"step": float(steps)} if self.counts and state else {}), **state}
        return found

    def state_dict(self) -> dict[str, Any]:
        """State and groups, with the keys of torch.optim; the arrays are those of the optimiser, not copies."""
        groups, at = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**group, "params": list(range(at, at + count))})
            at += count
        state = {k: self._exported(k, each) for k, each in self.state.items() if each}
        return {"state": state, "param_groups": groups}

    def _exported(self, k: int, state: dict[str, Any]) -> dict[str, Any]:
        """torch.optim keeps steps as tensors."""
        p = [p for group in self._params for p in group][k]
        if "step" in state and is_torch(p.framework):
            torch = p.framework.torch  # type: ignore[attr-defined]
            return {**state, "step": torch.tensor(state["step"], dtype=torch.float32)}
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take state and options of `state_dict()`, or of the optimiser of torch.optim of this name."""
        groups = state_dict["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise InvalidProblemError("state_dict has other groups of parameters than the optimiser")
        for own, given in zip(self.param_groups, groups):
            own.update({key: copy.copy(value) for key, value in given.items() if key in own and key != "params"})
            self.check(own)
        numbers = [number for group in groups for number in group["params"]]
        k = 0
        for g, params in enumerate(self._params):
            for i, p in enumerate(params):
                self._load(g, i, p, dict(state_dict["state"].get(numbers[k], {})))
                k += 1
        self._pattern, self._whole = (), None

    def _load(self, g: int, i: int, p: Parameter, given: dict[str, Any]) -> None:
        steps = given.pop("step", None)
        given = {name: value for name, value in given.items() if value is not None}
        self._counters[g][i] = Counter(int(float(steps)) if steps is not None else int(bool(given)))
        self._states[g][i] = {}
        if not given and steps is None:
            return
        self._make_states(g, i)
        own = self._states[g][i]
        for name, value in given.items():
            if name not in own:
                raise InvalidProblemError(f"state_dict has {name!r}, which {type(self).__name__} has not here")
            target = own[name]
            if tuple(target.shape) != tuple(value.shape):
                raise InvalidProblemError(f"{name} has shape {tuple(value.shape)}, must be {tuple(target.shape)}")
            p.framework.copy(target, value)

    def __repr__(self) -> str:
        groups: Sequence[str] = [
            ", ".join(f"{key}={value!r}" for key, value in group.items() if key != "params")
            for group in self.param_groups
        ]
        return f"{type(self).__name__}({'; '.join(groups)})"

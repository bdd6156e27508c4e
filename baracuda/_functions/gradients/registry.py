# SPDX-License-Identifier: Apache-2.0
"""Autograd registry for PyTorch and JAX: the gradient of each function, and where its arguments come from."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from baracuda._functions.gradients.composite import JOINT, SEPARATE, CompositeGradient
from baracuda._functions.gradients.gemm import GEMM_GRADIENTS
from baracuda._functions.spec import REQUIRED, Spec, specs

# Incoming gradients besides dy, and the results that they belong to.
_INCOMING = {"dsum": "sum", "dfinal_state": "final_state", "dlast_state": "last_state", "dh_n": "h_n", "dc_n": "c_n"}
# Arguments whose gradient equals that of another one.
_SAME_GRADIENT = {"residual": "dx"}
# Functions differentiated as another one. The wide group norms do not round saved statistics to 16 bits; the indices of
# maxima spare the gradient the search for them.
_DIFFERENTIATED_AS = {
    "cummax_indices": "cummax", "cummin_indices": "cummin", "group_norm": "group_norm_wide",
    "instance_norm": "instance_norm_wide", "max_pool": "max_pool_indices",
    "adaptive_max_pool": "adaptive_max_pool_indices",
}  # fmt: skip
# Extents that no other argument of the gradient tells: (array, the argument that names the axis).
_EXTENT_SOURCES = {"size": ("x", "axis"), "split_offset": ("a", "axis")}


# Functions that may read only the leading part of an argument; its gradient is padded with zeros.
READS_LEADING_PART = {"gather": "x"}


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The gradient `spec` of the forward function `whole`: f itself, or f_forward if the gradient reads results that f
    does not return.

    incoming  incoming gradients, by argument of `spec` -> positions of the results of `whole`
    reads     arguments and results of `whole` that `spec` reads under the same names
    shaped    arrays of which only the shape matters; None ones are left out
    extents   numbers that are extents: (array, axis or the name of the argument that gives it)
    given     arguments of `whole` -> positions of their gradients among the results of `spec`
    separate     arguments of `whole` with a gradient function of their own, such as f_target_backward
    """

    whole: Spec
    spec: Spec | CompositeGradient
    incoming: Mapping[str, int]
    reads: tuple[str, ...]
    shaped: tuple[str, ...]
    extents: Mapping[str, tuple[str, int | str]]
    given: Mapping[str, int]
    separate: Mapping[str, Spec | CompositeGradient]

    def extents_of(self, given: Mapping[str, Any]) -> dict[str, int]:
        """The values of `extents` for these arguments of `whole`."""
        return {
            name: given[array].shape[given[axis] if isinstance(axis, str) else axis]
            for name, (array, axis) in self.extents.items()
        }

    def read(self, needs: Mapping[str, bool]) -> list[str]:
        """The arguments that gradients of the needed ones read, and autograd must save."""
        found = list(self.reads)
        for each in [each for name, each in self.separate.items() if needs.get(name)]:
            found += each.reads if isinstance(each, CompositeGradient) else [argument.name for argument in each.arrays]
        return [name for name in dict.fromkeys(found) if name not in self.incoming]

    def wanted(self, needs: Mapping[str, bool]) -> list[bool]:
        """Flags of the results of `spec` that the gradients of the needed arguments require."""
        return [any([needs.get(name, False) for name, at in self.given.items() if at == k])
                for k in range(len(self.spec.outputs))]  # fmt: skip


@functools.cache
def gradient_of(name: str) -> Gradient | None:
    """The gradient of a function; None if the table has none, or one that reads what no function returns."""
    if name in JOINT:
        made, given = JOINT[name], {argument: k for k, argument in enumerate(JOINT[name].outputs)}
        return Gradient(specs()[name], made, made.incoming, made.reads, made.shaped, {}, given, {})
    of = _DIFFERENTIATED_AS.get(name, name).removesuffix("_forward")
    spec = specs().get(f"{of}_backward")
    if spec is None or name in (*GEMM_GRADIENTS, "matmul"):  # their gradients are GEMMs, which are differentiable again
        return None
    for whole in filter(None, (specs()[name], specs().get(f"{of}_forward"), specs().get(of))):
        found = _gradient(whole, spec)
        if found is not None:
            return found
    return None


def differentiated(name: str) -> Spec:
    """The forward function that is computed in place of `name` when it is differentiated."""
    found, forward = gradient_of(name), f"{name}_forward"
    return found.whole if found is not None else specs()[forward if forward in GEMM_GRADIENTS else name]


def _gradient(whole: Spec, spec: Spec) -> Gradient | None:
    inputs = [argument.name for argument in whole.positional]
    results = [output.name for output in whole.outputs]
    read = [argument.name for argument in spec.arrays if argument.pointer]
    incoming = {read[0]: 0} | {name: results.index(_INCOMING[name]) for name in read if _INCOMING.get(name) in results}
    reads = [name for name in read if name not in incoming]
    # The gradient may call the only result of a function y, whatever its name.
    if not {*inputs, *results, *(["y"] if len(results) == 1 else [])}.issuperset(reads):
        return None
    known = {*inputs, *[number.name for number in whole.numbers]}
    extents = {n.name: _extent(whole, n.name, n.number) for n in spec.numbers
               if n.name not in known and n.name != "dtype"}  # fmt: skip
    given = {output.name.removeprefix("d"): k for k, output in enumerate(spec.outputs)}
    apart = SEPARATE.get(whole.name.removesuffix("_forward"), {})
    given |= {name: given[same[1:]] for name, same in _SAME_GRADIENT.items()
              if name in inputs and same[1:] in given and name not in apart}  # fmt: skip
    if not given.keys() <= set(inputs):
        return None
    shaped = [argument.name for argument in spec.arrays if not argument.pointer]
    own = {name: specs().get(f"{whole.name.removesuffix('_forward')}_{name}_backward") for name in inputs}
    separate: dict[str, Spec | CompositeGradient] = {
        name: each for name, each in own.items() if each is not None and name not in given
    }
    for name, composed in apart.items():
        separate[name] = composed
        shaped += composed.shaped
    return Gradient(whole, spec, incoming, tuple(dict.fromkeys(reads)), tuple(shaped), extents, given, separate)


def _extent(whole: Spec, name: str, extent_name: str) -> tuple[str, int | str]:
    for param in whole.row.params:
        if param.direction == "in" and extent_name in (extent_names := param.shape.split(", ")):
            return whole.names[param.name], extent_names.index(extent_name)
    if name in _EXTENT_SOURCES:
        return _EXTENT_SOURCES[name]
    raise LookupError(f"{whole.name}: no operand tells {name}")


def zero_padding(shape: Sequence[int], whole: Sequence[int]) -> list[tuple[int, int]]:
    """Padding widths, for each axis, from a gradient of this shape to an operand of the shape `whole`."""
    return [(0, want - have) for have, want in zip(shape, whole)]


# Numbers of a function that its gradient lacks: they follow from the shape of dy.
_OF_DY: dict[str, Callable[[Sequence[int]], Any]] = {
    "num_segments": lambda shape: shape[0], "max_selected": math.prod, "size": list,
    "output_size": lambda shape: list(shape[2:]),
}  # fmt: skip


def _image_size(name: str, shape: Sequence[int], values: Mapping[str, Any]) -> list[int] | None:
    """The spatial extents of dy, unless a factor tells them."""
    if values.get("scale_factor") is not None:
        return None
    first = max(len(shape) - 3, 0)
    return list(shape[2:] if name == "interpolate" else shape[first : first + 2])


@functools.cache
def linear_partner(name: str) -> Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any] | None:
    """The derivative by dy of a gradient that is linear in dy alone: a call of the function itself.

    It takes a caller of functions by name, the incoming gradients, the gradient's arguments and "shape of dy". None if
    there is no such function.
    """
    function = specs().get(name.removesuffix("_backward"))
    found = gradient_of(function.name) if function is not None and function.name != name else None
    if function is None or found is None or found.whole is not function or not isinstance(found.spec, Spec):
        return None
    spec = found.spec
    if spec.name != name or spec.is_partial or len(found.given) != len(spec.outputs):
        return None
    known = {array.name for array in spec.arrays if array.pointer} | {number.name for number in spec.numbers}
    others = [a for a in (*function.arrays, *function.numbers) if a.name not in found.given]
    if (
        "y" in known  # or another result: the function is not linear
        or known.intersection([output.name for output in function.outputs])
        or known.intersection(found.given)
        or any([a.name not in known and a.name not in _OF_DY and a.default is REQUIRED for a in others])
    ):
        return None

    def transposed(call: Callable[..., Any], grads: Sequence[Any], given: Mapping[str, Any]) -> Any:
        shape = given["shape of dy"]
        values = {n: given[n] for n in known if n in given}
        values |= {a.name: _OF_DY[a.name](shape) for a in others if a.name in _OF_DY and a.name not in known}
        if function.name in ("interpolate", "resize"):
            values["size"] = _image_size(function.name, shape, values)
        values |= {n: grads[at] for n, at in found.given.items()}
        positional = [values.get(a.name, a.default) for a in function.positional]
        options = {n.name: values[n.name] for n in function.numbers if n.default is not REQUIRED and n.name in values}
        result = call(function.name, *positional, **options)
        return result[0] if len(function.outputs) > 1 else result

    return transposed


def missing_gradients(name: str, needs: Mapping[str, bool], have: Collection[str]) -> str:
    """The error text for needed gradients that do not exist; empty if all do."""
    missing = [argument for argument, need in needs.items() if need and argument not in have]
    if not missing:
        return ""
    return f"baracuda.{name} has no gradient" + (f" with respect to {' and '.join(missing)}" if have else "")

"""Which function is the gradient of which, and where each of its arguments comes from: what autograd of PyTorch and JAX
are told.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from baracuda._functions.composed import APART, WHOLLY, Composed
from baracuda._functions.product_gradients import OF_PRODUCTS
from baracuda._functions.spec import REQUIRED, Spec, specs

# Results beside the first whose gradient the gradient takes as well, by its name there.
_FURTHER = {"dsum": "sum"}
# Arguments whose gradient is that of another one.
_ALIKE = {"residual": "dx"}
# Functions whose gradient is another one's: that of statistics which are not rounded to 16 bits, where theirs would be.
_AS_OF = {
    "cummax_indices": "cummax", "cummin_indices": "cummin", "group_norm": "group_norm_wide",
    "instance_norm": "instance_norm_wide",
}  # fmt: skip
# Extents of the gradient's result that stand in no other argument: (array, the argument that says along which axis).
_ALONG = {"size": ("x", "axis"), "split_offset": ("a", "axis")}


# Functions whose argument may be longer than what they read of it; the gradient is 0 behind that.
LONGER = {"gather": "x"}


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The gradient of `whole`, by which a function is computed where it is differentiated: `f_forward`, or that of the
    function whose gradient it is, where the gradient reads results that `f` does not give.

    arriving  arguments of the gradient -> positions of the results whose gradients they are
    reads     arguments of the gradient that are arguments or results of `whole`, of the same name
    shaped    arrays of which the shape alone matters; those of arguments that are not given do not
    extents   numbers that are extents: (array, axis, or the name of the argument that says it)
    given     arguments of `whole` -> position of their gradient among the results of `spec`
    apart     arguments of `whole` whose gradients are functions of their own, f_target_backward, or made of several
    """

    whole: Spec
    spec: Spec | Composed
    arriving: Mapping[str, int]
    reads: tuple[str, ...]
    shaped: tuple[str, ...]
    extents: Mapping[str, tuple[str, int | str]]
    given: Mapping[str, int]
    apart: Mapping[str, Spec | Composed]

    def extents_of(self, given: Mapping[str, Any]) -> dict[str, int]:
        """The numbers that are extents, of the arguments of `whole`. An argument that is not given is None."""
        return {
            name: given[array].shape[given[axis] if isinstance(axis, str) else axis]
            for name, (array, axis) in self.extents.items()
        }

    def read(self, needs: Mapping[str, bool]) -> list[str]:
        """What the gradients of these arguments read: a table that needs none has no share in what is kept."""
        found = list(self.reads)
        for each in [each for name, each in self.apart.items() if needs.get(name)]:
            found += each.reads if isinstance(each, Composed) else [argument.name for argument in each.arrays]
        return [name for name in dict.fromkeys(found) if name not in self.arriving]

    def wanted(self, needs: Mapping[str, bool]) -> list[bool]:
        """Which of the results of `spec` are needed for the gradients of these arguments."""
        return [any([needs.get(name, False) for name, at in self.given.items() if at == k])
                for k in range(len(self.spec.outputs))]  # fmt: skip


@functools.cache
def gradient_of(name: str) -> Gradient | None:
    """The gradient of a function; None where the table has none, or one that reads what no function gives."""
    if name in WHOLLY:
        made, given = WHOLLY[name], {argument: k for k, argument in enumerate(WHOLLY[name].outputs)}
        return Gradient(specs()[name], made, made.arriving, made.reads, made.shaped, {}, given, {})
    of = _AS_OF.get(name, name).removesuffix("_forward")
    spec = specs().get(f"{of}_backward")
    if spec is None or name in (*OF_PRODUCTS, "matmul"):  # whose gradients are products, and so have gradients
        return None
    for whole in filter(None, (specs()[name], specs().get(f"{of}_forward"))):
        found = _gradient(whole, spec)
        if found is not None:
            return found
    return None


def differentiated(name: str) -> Spec:
    """By which a function is computed where it is differentiated."""
    found, forward = gradient_of(name), f"{name}_forward"
    return found.whole if found is not None else specs()[forward if forward in OF_PRODUCTS else name]


def _gradient(whole: Spec, spec: Spec) -> Gradient | None:
    inputs = [argument.name for argument in whole.positional]
    results = [output.name for output in whole.outputs]
    read = [argument.name for argument in spec.arrays if argument.pointer]
    arriving = {read[0]: 0} | {name: results.index(_FURTHER[name]) for name in read if _FURTHER.get(name) in results}
    reads = [name for name in read if name not in arriving]
    # The result of a function that has one alone may have any name there: y, out.
    if not {*inputs, *results, *(["y"] if len(results) == 1 else [])}.issuperset(reads):
        return None
    known = {*inputs, *[number.name for number in whole.numbers]}
    extents = {n.name: _extent(whole, n.name, n.number) for n in spec.numbers
               if n.name not in known and n.name != "dtype"}  # fmt: skip
    given = {output.name.removeprefix("d"): k for k, output in enumerate(spec.outputs)}
    given |= {name: given[alike[1:]] for name, alike in _ALIKE.items() if name in inputs and alike[1:] in given}
    if not given.keys() <= set(inputs):
        return None
    shaped = [argument.name for argument in spec.arrays if not argument.pointer]
    own = {name: specs().get(f"{whole.name.removesuffix('_forward')}_{name}_backward") for name in inputs}
    apart: dict[str, Spec | Composed] = {
        name: each for name, each in own.items() if each is not None and name not in given
    }
    for name, composed in APART.get(whole.name.removesuffix("_forward"), {}).items():
        apart[name] = composed
        shaped += composed.shaped
    return Gradient(whole, spec, arriving, tuple(dict.fromkeys(reads)), tuple(shaped), extents, given, apart)


def _extent(whole: Spec, name: str, word: str) -> tuple[str, int | str]:
    for param in whole.row.params:
        if param.direction == "in" and word in (words := param.shape.split(", ")):
            return whole.names[param.name], words.index(word)
    if name in _ALONG:
        return _ALONG[name]
    raise LookupError(f"{whole.name}: no operand tells {name}")


def lengthening(shape: Sequence[int], whole: Sequence[int]) -> list[tuple[int, int]]:
    """Zeros before and behind a gradient of this shape, of an operand of the shape `whole`."""
    return [(0, want - have) for have, want in zip(shape, whole)]


# Numbers of a function that its gradient has not: they follow from the shape of dy.
_OF_DY: dict[str, Callable[[Sequence[int]], Any]] = {
    "num_segments": lambda shape: shape[0], "max_selected": math.prod, "size": list,
}  # fmt: skip


@functools.cache
def linear_partner(name: str) -> Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any] | None:
    """The gradient by dy of a gradient that reads nothing of what is differentiated: the function that it is of.

    It takes a function that calls by name, the gradients that arrive, and what the gradient was given, "shape of dy" as
    well. None where there is no such function.
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
        "y" in known
        or known.intersection(found.given)
        or any([a.name not in known and a.name not in _OF_DY and a.default is REQUIRED for a in others])
    ):
        return None

    def partner(call: Callable[..., Any], grads: Sequence[Any], given: Mapping[str, Any]) -> Any:
        shape = given["shape of dy"]
        values = {n: given[n] for n in known if n in given}
        values |= {n: of(shape) for n, of in _OF_DY.items() if n not in known}
        values |= {n: grads[at] for n, at in found.given.items()}
        positional = [values.get(a.name, a.default) for a in function.positional]
        options = {n.name: values[n.name] for n in function.numbers if n.default is not REQUIRED and n.name in values}
        result = call(function.name, *positional, **options)
        return result[0] if len(function.outputs) > 1 else result

    return partner


def refused(name: str, needs: Mapping[str, bool], have: Collection[str]) -> str:
    """What is wrong with asking for the gradients of these arguments; empty where nothing is."""
    missing = [argument for argument, need in needs.items() if need and argument not in have]
    if not missing:
        return ""
    return f"baracuda.{name} has no gradient" + (f" with respect to {' and '.join(missing)}" if have else "")

# SPDX-License-Identifier: Apache-2.0
"""Autograd kernels of the operators: reverse and forward mode, and the transforms of torch.func.

An operator's kernel for PyTorch's Autograd key records a node, as PyTorch's own operators do; transforms call it once
for each of their levels. A function whose gradient reads results that it does not return calls its f_forward instead.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from baracuda._functions.gradients.composite import COMPOSITE_GRADIENTS, CompositeGradient
from baracuda._functions.gradients.formulas import FORMULAS
from baracuda._functions.gradients.gemm import GEMM_GRADIENTS
from baracuda._functions.gradients.registry import (
    READS_LEADING_PART,
    Gradient,
    differentiated,
    gradient_of,
    linear_partner,
    missing_gradients,
    zero_padding,
)
from baracuda._functions.spec import REQUIRED, Spec
from baracuda.errors import UnsupportedError
from baracuda.torch._formulas import formula_vjp
from baracuda.torch._forward_mode import Tangents, dual, in_forward_mode, primal_of
from baracuda.torch._gradients import VJP_RULES, calls

Operators = Callable[[str], Any]  # operator by name

# Dtypes of results whose dtype is left out.
DEFAULT_DTYPES = {"f32": torch.float32, "u8": torch.uint8, "fp8e4m3": torch.float8_e4m3fn}


def is_recorded(arguments: Sequence[Any]) -> bool:
    """Whether one of the arguments requires grad."""
    return torch.is_grad_enabled() and True in [isinstance(a, torch.Tensor) and a.requires_grad for a in arguments]


def node(name: str, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """An autograd.Function for one level of transforms."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"{name}Backward", (_SingleLevelFunction,), methods)


def apply_node(node: Any, *arguments: Any) -> Any:
    """Apply the node, also inside a transform of torch.func, which calls the kernel once for each of its levels."""
    if not torch._C._are_functorch_transforms_active():
        return node.apply(*arguments)
    with enable_single_level_autograd_function():
        return node.apply(*arguments)


def call_below_autograd(operator: Any, keyset: Any, *arguments: Any, **numbers: Any) -> Any:
    """The operator below autograd of this level. A node's forward disables both modes; outer levels need them."""
    with contextlib.ExitStack() as stack:
        if torch._C._are_functorch_transforms_active():
            stack.enter_context(torch.enable_grad())
            stack.enter_context(forward_ad._set_fwd_grad_enabled(True))
        stack.enter_context(torch._C._AutoDispatchBelowAutograd())
        return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments, **numbers)


class Differentiable:
    """The autograd kernel of one operator; `inputs` are its positional arguments in the schema."""

    def __init__(self, spec: Spec, inputs: Sequence[str], operator: Operators) -> None:
        self.spec, self.operator, self.inputs = spec, operator, list(inputs)
        self.defaults = {each.name: each.default for each in (*spec.arrays, *spec.numbers)
                         if each.default is not REQUIRED}  # fmt: skip
        if self.defaults.get("dtype") in DEFAULT_DTYPES:
            self.defaults["dtype"] = DEFAULT_DTYPES[self.defaults["dtype"]]
        self.options = [number.name for number in spec.numbers if number.name not in self.inputs]
        self.options += ["needs"] * spec.is_partial
        whole = differentiated(spec.name)
        self.whole = whole.name if whole is not spec else ""
        found = None if self.whole else gradient_of(spec.name)
        self.found = found
        # Some results of a forward may have no incoming gradient; rules of VJP_RULES take None for it.
        self.reads_results = spec.name in GEMM_GRADIENTS and spec.name.endswith("_forward")
        self.partner = linear_partner(spec.name)
        self.reads = self._reads()
        if found is not None and isinstance(found.spec, Spec):
            operator(found.spec.name)
        if self.whole:
            operator(self.whole)
        self.tangents = Tangents(spec, found, spec.name in VJP_RULES, operator, self._by_table)
        self.node = node(spec.name, self._forward, self._backward)

    def _reads(self) -> tuple[str, ...]:
        """The saved arguments and results of a gradient outside the op table."""
        if self.spec.name in FORMULAS:
            return tuple([argument.name for argument in self.spec.arrays])
        if self.partner is not None:
            return tuple([argument.name for argument in self.spec.arrays[1:] if argument.pointer])
        return VJP_RULES.get(self.spec.name, ("", ()))[1]

    def kernel(self, keyset: Any, *arguments: Any, **numbers: Any) -> Any:
        """The kernel; PyTorch leaves out arguments that equal their defaults."""
        given = {**self.defaults, **dict(zip(self.inputs, arguments)), **numbers}
        positional = [given[name] for name in self.inputs]
        options = {name: given.get(name) for name in self.options}
        in_forward = in_forward_mode(positional)
        if not in_forward and not is_recorded(positional):
            return call_below_autograd(self.operator(self.spec.name), keyset, *positional, **options)
        if self.whole:
            results = self.operator(self.whole)(*positional, **options)
            count = len(self.spec.outputs)
            return results[0] if count == 1 else tuple(results[:count])
        if not in_forward:
            return apply_node(self.node, (keyset, options), *positional)
        found = self.kernel(keyset, *[primal_of(value) for value in positional], **options)
        results = found if isinstance(found, tuple) else (found,)
        tangents = self.tangents(given, results)
        duals = [dual(result, tangent) for result, tangent in itertools.zip_longest(results, tangents)]
        return tuple(duals) if isinstance(found, tuple) else duals[0]

    # --- reverse mode -------------------------------------------------------------------------------------------------

    def _forward(self, ctx: Any, call: tuple[Any, dict[str, Any]], *arguments: Any) -> Any:
        keyset, options = call
        output = call_below_autograd(self.operator(self.spec.name), keyset, *arguments, **options)
        given = {**dict(zip(self.inputs, arguments)), **options}
        ctx.numbers = {n.name: given[n.name] for n in self.spec.numbers}
        results = output if isinstance(output, tuple) else (output,)
        needs = dict(zip(self.inputs, ctx.needs_input_grad[1:]))
        if self.found is None:
            ctx.set_materialize_grads(not self.reads_results)
            ctx.mark_non_differentiable(
                *[result for result in results if not (result.is_floating_point() or result.is_complex())]
            )
            self._save_for_rule(ctx, given, results)
            return output
        incoming = self.found.incoming.values()
        ctx.mark_non_differentiable(*[result for k, result in enumerate(results) if k not in incoming])
        outputs = dict(zip([o.name for o in self.spec.outputs], results))
        ctx.names = self.found.read(needs)
        ctx.save_for_backward(*[given[n] if n in given else outputs.get(n, results[0]) for n in ctx.names])
        ctx.shapes = {name: given[name].shape for name in self.found.shaped if given[name] is not None}
        ctx.dtype = given[self.inputs[0]].dtype
        ctx.longer = given[READS_LEADING_PART[self.spec.name]].shape if self.spec.name in READS_LEADING_PART else None
        ctx.numbers |= self.found.extents_of(given)
        return output

    def _save_for_rule(self, ctx: Any, given: Mapping[str, Any], results: Sequence[Any]) -> None:
        given = {**dict(zip([output.name for output in self.spec.outputs], results)), **given}
        shaped = [name for each in COMPOSITE_GRADIENTS.get(self.spec.name, {}).values() for name in each.shaped]
        ctx.names = [name for name in self.reads if given.get(name) is not None]
        ctx.save_for_backward(*[given[name] for name in ctx.names])
        ctx.shapes = {name: given[name].shape for name in shaped}
        first = given[self.inputs[0]] if self.inputs else None
        ctx.dtype, ctx.first = getattr(first, "dtype", None), getattr(first, "shape", None)

    def _backward(self, ctx: Any, *grads: Any) -> Any:
        needs = dict(zip(self.inputs, ctx.needs_input_grad[1:]))
        saved = dict(zip(ctx.names, ctx.saved_tensors))
        if self.found is not None:
            found = self._of_table(ctx, saved, grads, needs)
        else:
            found = self._by_rule(ctx, saved, grads, needs)
        have = found if self.found is None else {*self.found.given, *self.found.separate}
        if wrong := missing_gradients(self.spec.name, needs, have):
            raise UnsupportedError(wrong)
        return (None, *[found.get(name) if need else None for name, need in needs.items()])

    def _by_rule(
        self, ctx: Any, saved: Mapping[str, Any], grads: Sequence[Any], needs: Mapping[str, bool]
    ) -> dict[str, Any]:
        name, numbers = self.spec.name, ctx.numbers
        if name in FORMULAS:
            return formula_vjp(self.spec, {**numbers, **saved}, grads, needs)
        if self.partner is not None:  # a gradient that is linear in dy: its derivative is the function
            values = {**numbers, **saved, "shape of dy": ctx.first}
            return {self.spec.arrays[0].name: self.partner(calls(self.operator), grads, values)}
        if name not in VJP_RULES:
            return {}
        given = numbers | {"dtype of x": ctx.dtype, "needs": needs} | dict(saved)
        given |= {name: grads[0].new_empty(()).expand(shape) for name, shape in ctx.shapes.items()}
        return VJP_RULES[name][0](self.operator, grads if len(grads) > 1 else grads[0], given)

    def _of_table(
        self, ctx: Any, saved: Mapping[str, Any], grads: Sequence[Any], needs: Mapping[str, bool]
    ) -> dict[str, Any]:
        assert self.found is not None
        values = {**saved, **ctx.numbers, "dtype": ctx.dtype}
        values |= {name: grads[0].new_empty(()).expand(shape) for name, shape in ctx.shapes.items()}
        values |= {name: grads[position] for name, position in self.found.incoming.items()}
        made = self._results(self.found, values, grads[0], needs)
        if ctx.longer is not None and READS_LEADING_PART[self.spec.name] in made:
            name = READS_LEADING_PART[self.spec.name]
            widths = [width for pair in reversed(zero_padding(made[name].shape, ctx.longer)) for width in pair]
            made[name] = torch.nn.functional.pad(made[name], widths)
        return made

    def _by_table(self, values: Mapping[str, Any], dy: Any, needs: Mapping[str, bool]) -> dict[str, Any]:
        """Gradients for forward mode; `values` are arguments, results and numbers."""
        if self.found is None:
            given = {**values, "needs": needs}
            return VJP_RULES[self.spec.name][0](self.operator, dy, given)
        known = {**dict.fromkeys([argument.name for argument in self.found.spec.arrays]
                                 if isinstance(self.found.spec, Spec) else ()),
                 **self.found.extents_of(values), **values, "dtype": values[self.inputs[0]].dtype}  # fmt: skip
        known |= dict.fromkeys(self.found.incoming, None) | {next(iter(self.found.incoming)): dy}
        return self._results(self.found, known, dy, needs)

    def _results(
        self, found: Gradient, values: Mapping[str, Any], dy: Any, needs: Mapping[str, bool]
    ) -> dict[str, Any]:
        spec, values = found.spec, {**values, "dy": dy}
        separate = {name: self._called(each, values) for name, each in found.separate.items() if needs.get(name)}
        wanted = found.wanted(needs)
        if True not in wanted:  # `any` may be the operator of this module
            return separate
        results = self._called(spec, values, **({"needs": wanted} if spec.is_partial else {}))
        results = results if len(spec.outputs) > 1 else (results,)
        return separate | {name: results[at] for name, at in found.given.items()}

    def _called(self, spec: Spec | CompositeGradient, values: Mapping[str, Any], **options: Any) -> Any:
        if isinstance(spec, CompositeGradient):
            return spec.of(calls(self.operator), values)
        options |= {n.name: values[n.name] for n in spec.numbers if n.default is not REQUIRED}
        return self.operator(spec.name)(*[values[a.name] for a in spec.positional], **options)

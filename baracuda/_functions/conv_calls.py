# SPDX-License-Identifier: Apache-2.0
"""conv1d to conv3d and conv_transpose1d to conv_transpose3d by calls of convolution, for arrays of any framework.

`Arrays` has what frameworks do differently. Arrays whose memory has channels last are passed so, as permuted views:
their results have channels last in memory, too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import ActivationKind

_RANKS = (1, 2, 3)
FORWARD = tuple([f"conv{rank}d" for rank in _RANKS])
TRANSPOSED = tuple([f"conv_transpose{rank}d" for rank in _RANKS])
NAMES = (*FORWARD, *TRANSPOSED, *[f"{name}_backward" for name in (*FORWARD, *TRANSPOSED)])
# Functions that they call.
CALLED = ("convolution", "convolution_backward_data", "convolution_backward_filter", "convolution_transpose", "sum")
ACTIVATIONS = {None: 0, "none": 0, "relu": 1, "gelu": 2, "silu": 3, "gelu_tanh": 4}
# Names of the layouts by spatial axes: channels first, channels last.
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
Numbers = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]


class Arrays(Protocol):
    """Operations that each framework does in its own way."""

    def call(self, name: str, *arrays: Any, **numbers: Any) -> Any:
        """Call a function by its name."""

    def permuted(self, x: Any, order: Sequence[int]) -> Any:
        """A view of the array with its axes in another order."""

    def has_channels_last(self, x: Any) -> bool:
        """Whether memory has the second axis last, and is dense so but not row-major."""


def activation_number(given: Any) -> int:
    """C's number of an activation, given by name or as a member of ActivationKind."""
    name = given.name.lower() if isinstance(given, ActivationKind) else given
    if not isinstance(name, (str, type(None))) or name not in ACTIVATIONS:
        raise InvalidProblemError(f"activation is {given!r}, must be one of {', '.join(map(str, ACTIVATIONS))}")
    return ACTIVATIONS[name]


def is_channels_last(layout: str, rank: int) -> bool:
    first, last = LAYOUTS[rank]
    if layout not in (first, last):
        raise InvalidProblemError(f"layout is {layout!r}, must be {first!r} or {last!r}")
    return layout == last


def each_axis(name: str, given: Any, rank: int) -> tuple[int, ...]:
    """A number for each spatial axis, from one for all or a sequence of them."""
    if isinstance(given, (tuple, list)):
        if len(given) not in (1, rank):
            raise InvalidProblemError(f"{name} is {given!r}, must be one number or one for each of {rank} axes")
        return tuple(given) * (rank if len(given) == 1 else 1)
    return (given,) * rank


def padding_of(
    given: Any, rank: int, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and behind each axis: of a number, a number or a pair for each axis, "valid" or "same"."""
    if isinstance(given, str):
        if given == "valid":
            return (0,) * rank, (0,) * rank
        if given != "same":
            raise InvalidProblemError(f"padding is {given!r}, must be numbers, pairs of numbers, 'same' or 'valid'")
        if any(step != 1 for step in stride):
            raise InvalidProblemError(
                f"padding is 'same', which has no meaning for stride {tuple(stride)}: it must be 1"
            )
        whole = [d * (k - 1) for k, d in zip(taps, dilation)]
        return tuple([each // 2 for each in whole]), tuple([each - each // 2 for each in whole])
    pairs = each_axis("padding", given, rank)
    if any(isinstance(pair, (tuple, list)) and len(pair) != 2 for pair in pairs):
        raise InvalidProblemError(f"padding is {given!r}, must be numbers, pairs of numbers, 'same' or 'valid'")
    both = [tuple(pair) if isinstance(pair, (tuple, list)) else (pair, pair) for pair in pairs]
    return tuple([before for before, _ in both]), tuple([after for _, after in both])


class ConvCalls:
    """The functions, for one framework."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def forward(
        self, rank: int, x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0,
        dilation: Numbers = 1, groups: int = 1, *, layout: str | None = None, activation: Any = None,
        allow_tf32: bool = False, out: Any = None,
    ) -> Any:  # fmt: skip
        numbers, is_last = self._numbers(rank, weight, stride, padding, dilation, layout)
        numbers |= {"groups": groups, "activation": activation_number(activation), "allow_tf32": allow_tf32}
        return self._results("convolution", rank, (x, weight), bias, numbers, is_last, out)

    def transposed(
        self, rank: int, x: Any, weight: Any, bias: Any = None, stride: Numbers = 1, padding: Padding = 0,
        output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *, layout: str | None = None,
        activation: Any = None, allow_tf32: bool = False, out: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(padding, str):
            raise InvalidProblemError(f"padding is {padding!r}, must be numbers or pairs of numbers")
        numbers, is_last = self._numbers(rank, weight, stride, padding, dilation, layout)
        numbers |= {"groups": groups, "activation": activation_number(activation), "allow_tf32": allow_tf32}
        numbers["output_padding"] = each_axis("output_padding", output_padding, rank)
        return self._results("convolution_transpose", rank, (x, weight), bias, numbers, is_last, out)

    def forward_backward(
        self, rank: int, dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
        groups: int = 1, *, layout: str | None = None, allow_tf32: bool = False,
        needs: Sequence[bool] = (True, True, True),
    ) -> Any:  # fmt: skip
        numbers, is_last = self._numbers(rank, weight, stride, padding, dilation, layout)
        numbers |= {"groups": groups, "allow_tf32": allow_tf32}
        _check_needs(needs)
        (dy, x, weight), restore, is_last, is_single = self._arranged(rank, (dy, x), weight, is_last)
        numbers["channels_last"] = is_last
        dx = dweight = dbias = None
        if needs[0]:
            dx = self._restored(
                self.arrays.call("convolution_backward_data", dy, weight, x, **numbers), restore, is_single
            )
        if needs[1] or needs[2]:
            dweight, dbias = self.arrays.call(
                "convolution_backward_filter", dy, x, weight, **numbers, needs=(needs[1], needs[2])
            )
            dweight = self._restored(dweight, restore, False) if needs[1] else None
        return dx, dweight, dbias if needs[2] else None

    def transposed_backward(
        self, rank: int, dy: Any, x: Any, weight: Any, stride: Numbers = 1, padding: Padding = 0,
        output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *, layout: str | None = None,
        allow_tf32: bool = False, needs: Sequence[bool] = (True, True, True),
    ) -> Any:  # fmt: skip
        numbers, is_last = self._numbers(rank, weight, stride, padding, dilation, layout)
        numbers |= {"groups": groups, "allow_tf32": allow_tf32}
        numbers["output_padding"] = each_axis("output_padding", output_padding, rank)
        _check_needs(needs)
        (dy, x, weight), restore, is_last, is_single = self._arranged(rank, (dy, x), weight, is_last)
        numbers["channels_last"] = is_last
        dx, dweight, dbias = transposed_gradients(self.arrays.call, dy, x, weight, numbers, needs)
        dx = self._restored(dx, restore, is_single) if needs[0] else None
        return dx, self._restored(dweight, restore, False) if needs[1] else None, dbias

    # --- arguments ----------------------------------------------------------------------------------------------------

    def _numbers(
        self, rank: int, weight: Any, stride: Any, padding: Any, dilation: Any, layout: str | None
    ) -> tuple[dict[str, Any], bool]:
        is_last = layout is not None and is_channels_last(layout, rank)
        if len(weight.shape) != rank + 2:
            raise InvalidProblemError(f"weight has shape {tuple(weight.shape)}, must have {rank + 2} axes")
        taps = weight.shape[1:-1] if is_last else weight.shape[2:]
        stride, dilation = each_axis("stride", stride, rank), each_axis("dilation", dilation, rank)
        before, after = padding_of(padding, rank, taps, stride, dilation)
        return {"stride": stride, "padding": before, "padding_after": after, "dilation": dilation}, is_last

    def _arranged(
        self, rank: int, inputs: Sequence[Any], weight: Any, is_last: bool
    ) -> tuple[list[Any], bool, bool, bool]:
        """The arrays as C takes them, whether axes are permuted for it, whether channels are last then, and whether the
        inputs are single images."""
        is_single = len(inputs[-1].shape) == rank + 1
        given = [each[None] if len(each.shape) == rank + 1 else each for each in inputs]
        if any(len(each.shape) != rank + 2 for each in given):
            shapes = " and ".join([str(tuple(each.shape)) for each in inputs])
            raise InvalidProblemError(
                f"x has shape {shapes}, must have {rank + 2} axes, or {rank + 1} without the batch"
            )
        if is_last or not self.arrays.has_channels_last(given[-1]):
            return [*given, weight], False, is_last, is_single
        order = (0, *range(2, rank + 2), 1)
        return [self.arrays.permuted(each, order) for each in (*given, weight)], True, True, is_single

    def _restored(self, result: Any, is_permuted: bool, is_single: bool) -> Any:
        if is_permuted:
            rank = len(result.shape)
            result = self.arrays.permuted(result, (0, rank - 1, *range(1, rank - 1)))
        return result[0] if is_single else result

    def _results(
        self, name: str, rank: int, given: Sequence[Any], bias: Any, numbers: dict[str, Any], is_last: bool, out: Any
    ) -> Any:
        (x, weight), restore, is_last, is_single = self._arranged(rank, given[:1], given[1], is_last)
        if out is None:
            y = self.arrays.call(name, x, weight, bias, **numbers, channels_last=is_last)
            return self._restored(y, restore, is_single)
        if is_single:
            raise UnsupportedError("out is given for a single image, but is served with a batch alone")
        if restore:
            out_view = self.arrays.permuted(out, (0, *range(2, rank + 2), 1))
        else:
            out_view = out
        self.arrays.call(name, x, weight, bias, **numbers, channels_last=is_last, out=out_view)
        return out


def bound(calls: ConvCalls, name: str) -> Any:
    """The function of NAMES with this name."""
    of, rank = name.removesuffix("_backward"), int(name.removesuffix("_backward")[-2])
    method = ("transposed" if of in TRANSPOSED else "forward") + name[len(of) :]
    made = functools.partial(getattr(calls, method), rank)
    functools.update_wrapper(made, getattr(calls, method))
    made.__name__ = name  # type: ignore[attr-defined]
    return made


def _check_needs(needs: Sequence[bool]) -> None:
    if len(needs) != 3:
        raise InvalidProblemError(f"needs is {tuple(needs)!r}, must be three bools: of x, weight and bias")


def transposed_gradients(
    call: Any, dy: Any, x: Any, weight: Any, numbers: dict[str, Any], needs: Sequence[bool]
) -> tuple[Any, Any, Any]:
    """Gradients of convolution_transpose, whose x is the result of a convolution of dy."""
    numbers = dict(numbers)
    more = numbers.pop("output_padding")
    is_last = bool(numbers["channels_last"])
    axes = range(1, len(x.shape) - 1) if is_last else range(2, len(x.shape))
    dbias = call("sum", dy, axis=(0, *axes)) if needs[2] else None
    # An output_padding of a stride or more would give the convolution more windows than x has.
    before = list(each_axis("padding", numbers["padding"], len(axes)))
    after = list(each_axis("padding_after", numbers["padding_after"], len(axes)))
    steps = each_axis("stride", numbers["stride"], len(axes))
    kept = [slice(None)] * len(x.shape)
    for d, (axis, own, step) in enumerate(zip(axes, each_axis("output_padding", more, len(axes)), steps)):
        unread = own // step * step
        from_padding = min(unread, after[d])
        after[d] -= from_padding
        if unread > from_padding:
            kept[axis] = slice(0, dy.shape[axis] - (unread - from_padding))
    cut = dy if all(each == slice(None) for each in kept) else dy[tuple(kept)]
    numbers |= {"padding": tuple(before), "padding_after": tuple(after)}
    dx = call("convolution", cut, weight, None, **numbers) if needs[0] else None
    dweight = (
        call("convolution_backward_filter", x, cut, weight, **numbers, needs=(True, False))[0] if needs[1] else None
    )
    return dx, dweight, dbias

# SPDX-License-Identifier: Apache-2.0
"""unfold and repeat_interleave with their gradients: copies along one axis that change its extent."""

import math

import numpy as np

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .pad import summed
from .repeat import MOVE_BRIEF, PERMUTED, of_each_width


def unfolded(x, axis, size, step):
    """torch.Tensor.unfold: the windows along the axis, with their elements on a new last axis."""
    all_of_them = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return all_of_them[tuple(slice(None, None, step) if d == axis else slice(None) for d in range(x.ndim))]


def interleaved(x, axis, repeats):
    return np.repeat(x, repeats, axis)


class Move:
    """An op y = move(x, axis, *parameters) with their names, and its gradient."""

    def __init__(self, move, *names):
        self.move, self.names = move, names

    def forward(self, draw, shape, axis, *parameters, x=None, y=None, kind="normal"):
        out = self.move(np.zeros(shape), axis, *parameters).shape
        x, y = strides_for(shape, **x or {}), strides_for(out, **y or {})
        scalars = {"output_numel": math.prod(out), "rank": len(shape), **dict(zip(self.names, (axis, *parameters)))}
        host = {"input_shape": tuple(shape), "stride_x": x, "stride_y": y}
        return Problem(scalars, {"x": draw.values(shape, kind, x), "y": draw.output(out, y)}, host)

    def backward(self, draw, shape, axis, *parameters, dy=None, dx=None, kind="normal", null=()):
        out = self.move(np.zeros(shape), axis, *parameters).shape
        dy, dx = strides_for(out, **dy or {}), strides_for(shape, **dx or {})
        scalars = {"input_numel": math.prod(shape), "rank": len(shape), **dict(zip(self.names, (axis, *parameters)))}
        host = {"input_shape": tuple(shape), "stride_dy": dy, "stride_dx": dx}
        return Problem(scalars, {"dy": draw.floats(out, kind, dy), "dx": draw.output(shape, dx)}, host, null)

    def reference(self, problem):
        parameters = [problem.scalars[name] for name in self.names]
        return {"y": Expected(self.move(problem.arrays["x"].values, *parameters))}

    def reference_backward(self, problem):
        shape, parameters = problem.host["input_shape"], [problem.scalars[name] for name in self.names]
        source = self.move(np.arange(math.prod(shape)).reshape(shape), *parameters)
        return {"dx": summed(problem.arrays["dy"].values, source, shape)}

    def bad(self, count, arrays, plain, parameters):
        """Bad calls of the problem whose x has the shape `plain`; `parameters` maps a name to bad values and their
        texts."""
        axis, (first, last) = self.names[0], (f"stride_{a}" for a in arrays)
        bad = [
            Bad("negative", 2, rf"{count} is -2", {count: -2}, can=2),
            Bad("rank_negative", 2, r"rank is -1", {"rank": -1}, can=2),
            Bad("rank_9", 2, r"rank is 9", {"rank": 9}, can=2),
            Bad("null_shape", 2, r"input_shape is NULL", host={"input_shape": None}, can=2),
            Bad("extent_negative", 2, r"input_shape\[0\] is -3", host={"input_shape": (-3, *plain[1:])}, can=2),
            Bad("count_wrong", 2, rf"{count} is 17\b", {count: 17}, can=2),
            Bad("axis_negative", 2, rf"{axis} is -1", {axis: -1}, can=2),
            Bad("axis_far", 2, rf"{axis} is {len(plain)}", {axis: len(plain)}, can=2),
            *(
                Bad(f"{name}_{value}", 2, text, {name: value}, can=2)
                for name, values in parameters.items()
                for value, text in values
            ),
            *(Bad(f"null_{s}", 2, rf"{s} is NULL", host={s: None}, can=2) for s in (first, last)),
            *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in arrays),
            *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in arrays),
            *(Bad(f"far_{s}", 2, rf"{s}\[0\] is {2**61}", host={s: (2**61, 9, 1, 1)}, can=2) for s in (first, last)),
            Bad("still", 2, rf"{last}\[0\] is 0", host={last: (0, 3, 1)}, can=2),
        ]
        return tuple(bad)


UNFOLD = Move(unfolded, "unfold_dim", "window_size", "window_step")
INTERLEAVE = Move(interleaved, "repeat_dim", "repeat_count")
UNFOLDS = {  # shape, axis, size, step, layouts
    "one": ((1,), 0, 1, 1, {}),
    "plain": ((9, 9), 1, 3, 2, {}),
    "overlapping": ((70,), 0, 7, 1, {}),
    "apart": ((3, 23), 1, 3, 5, {}),
    "side_by_side": ((4, 24), 1, 4, 4, {}),
    "rows": ((20, 33), 0, 5, 2, {}),
    "middle": ((3, 11, 16), 1, 4, 3, {}),
    "whole": ((5, 8), 1, 8, 1, {}),
    "singles": ((5, 8), 0, 1, 1, {}),
    "rest": ((2, 10), 1, 4, 4, {}),
    "long": ((5000,), 0, 400, 160, {}),
    "rank7": ((2, 1, 6, 2, 1, 2, 3), 2, 3, 2, {}),
    "permuted_in": ((6, 10, 14), 1, 4, 2, {"x": PERMUTED}),
    "permuted_out": ((6, 10, 14), 1, 4, 2, {"y": {"order": (3, 1, 0, 2)}}),
    "flipped": ((9, 14), 1, 4, 1, {"x": {"flip": (0, 1)}}),
    "flipped_out": ((9, 14), 1, 4, 1, {"y": {"flip": (1, 2)}}),
    "gaps": ((9, 11), 0, 3, 1, {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "large": ((37, 300), 1, 12, 3, {}),
}
INTERLEAVES = {  # shape, axis, repeats, layouts
    "one": ((1,), 0, 1, {}),
    "plain": ((5, 7, 9), 0, 3, {}),
    "same": ((3, 5, 7), 1, 1, {}),
    "inner": ((9, 33), 1, 4, {}),
    "twos": ((9, 301), 1, 2, {}),
    "fours": ((9, 64), 1, 4, {"x": {"pad": 8}, "y": {"pad": 16}}),
    "twelves": ((7, 50), 1, 12, {}),
    "nineteens": ((5, 32), 1, 19, {"x": {"pad": 3}, "y": {"pad": 16}}),
    "outer": ((9, 33), 0, 5, {}),
    "middle": ((3, 5, 16), 1, 3, {}),
    "many": ((5,), 0, 1003, {}),
    "none": ((3, 5), 1, 0, {}),
    "rank8": ((2, 1, 2, 1, 2, 1, 2, 3), 4, 3, {}),
    "permuted_in": ((6, 10, 14), 1, 4, {"x": PERMUTED}),
    "permuted_out": ((6, 10, 14), 1, 4, {"y": PERMUTED}),
    "flipped": ((9, 14), 1, 4, {"x": {"flip": (0, 1)}}),
    "flipped_out": ((9, 14), 1, 4, {"y": {"flip": (0, 1)}}),
    "gaps": ((9, 11), 0, 3, {"x": {"gap": 2}, "y": {"gap": 3, "pad": 2}}),
    "large": ((37, 65), 0, 19, {}),
}


def problems(make, given, x, y):
    def maker(shape, *rest):
        *parameters, layouts = rest
        own = {{"x": x, "y": y}[operand]: layout for operand, layout in layouts.items()}
        return lambda draw: make(draw, shape, *parameters, **own)

    return {name: maker(*each) for name, each in given.items()}


def cases(name, op, given, special, parameters, more_bad):
    forward = problems(op.forward, given, "x", "y")
    backward = problems(op.backward, given, "dx", "dy")
    plain = given["plain"][0]
    empty = (0, *plain[1:])
    yield Case(
        row=f"{name}_{{T}}",
        problems={n: make for n, make in forward.items() if n != "none"}
        | {
            "special": lambda d: op.forward(d, *special, kind="special"),
            "broadcast": lambda d: op.forward(d, *special, x={"broadcast": (0,)}),
        },
        reference=op.reference, tolerance={"y": "exact"}, plain="plain", large="large", brief=MOVE_BRIEF,
        full=of_each_width, bad=op.bad("output_numel", ("x", "y"), plain, parameters),
        idle=(Idle("count_0", {"output_numel": 0}, {"input_shape": empty}),),
    )  # fmt: skip
    yield Case(
        row=f"{name}_backward_{{T}}",
        problems=backward
        | {
            "special": lambda d: op.backward(d, *special, kind="special"),
            "broadcast_dy": lambda d: op.backward(d, *special, dy={"broadcast": (0,)}),
        },
        reference=op.reference_backward, tolerance={"dx": "total"}, plain="plain", large="large",
        bad=(*op.bad("input_numel", ("dy", "dx"), plain, parameters), *more_bad),
        idle=(Idle("count_0", {"input_numel": 0}, {"input_shape": empty}),),
    )  # fmt: skip


CASES = (
    *cases(
        "unfold", UNFOLD, UNFOLDS, ((7, 9), 1, 3, 2),
        {
            "window_size": ((-1, "window_size is -1"), (0, "window_size is 0"), (10, "window_size is 10")),
            "window_step": ((-1, "window_step is -1"), (0, "window_step is 0")),
        },
        (),
    ),
    *cases(
        "repeat_interleave", INTERLEAVE, INTERLEAVES, ((7, 9), 1, 3),
        {"repeat_count": ((-1, "repeat_count is -1"), (2**31 - 1, f"repeat_count is {2**31 - 1}"))},
        (),
    ),
)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Functions that rows name by `call`: on the problems of tests/cases against their references, and on more shapes."""

import functools
import itertools
import math

import numpy as np
import pytest

import baracuda as bk
import tolerances
from baracuda._call.c_call import OF_BYTES
from baracuda._functions.flags import FLAGS
from baracuda._functions.spec import REQUIRED, specs
from baracuda._library.param import SUFFIXES
from baracuda.guarantee import BATCH_INVARIANT
from baracuda.quantize.shapes import fp8_scale_shape
from cases import CASES, Draw
from cases.reduce.references import reduced
from cases.shape_layout.pad import value_in
from naming import Tries
from plan_tools import odd
from tools.oracle.numerics import encode

CALLED = {name: spec for name, spec in specs().items() if spec.row.calls}
ROTARY = {name for name, spec in CALLED.items() if spec.layout.startswith("rope")}  # test_rotary.py has theirs
# products/test_products.py has theirs
OF_PRODUCTS = ("matmul", "matmul_backward", "linear", "linear_gated", "grouped_gemm", "grouped_gemm_backward")
PRODUCTS = {name: spec for name, spec in CALLED.items() if spec.layout in OF_PRODUCTS}
# test_indexing.py tests these: problems of the cases leave some of their elements unwritten
MOVE_LAYOUTS = {"gather", "index_select", "scatter", "numbered", "gather_rows", "selection", "masked_scatter",
                "nonzero", "one_hot", "masked"}  # fmt: skip
MOVED = {name for name, spec in CALLED.items() if spec.layout in MOVE_LAYOUTS}
SEARCHES = {name for name, spec in CALLED.items() if spec.layout in ("searchsorted", "unique_runs", "unique")}
# test_images.py and test_boxes.py test these: arguments of the functions have other shapes than C's operands
IMAGES = {name for name, spec in CALLED.items() if spec.row.family == "image"}
# tests/quantize has theirs: the problems of the cases have C's shapes, which are not those of the functions; and
# tests/pool those of pooling, whose padding and layout are no parameters of C
QUANTIZING = {
    name for name, spec in CALLED.items()
    if "integer" in spec.layout or (spec.layout.startswith("quantize") and spec.layout != "quantized_matmul")
}  # fmt: skip
QUANTIZING |= {name for name, spec in CALLED.items() if spec.row.family == "pool"}
QUANTIZING |= {"selective_state_update"}  # tests/ssm
QUANTIZING |= {name for name, spec in CALLED.items() if spec.row.family == "fft"}  # tests/fft
# tests/linalg: strides and extents say to C what `left`, `transpose` and `complete` say to the functions
QUANTIZING |= {f"linalg_{name}" for name in ("householder_product", "lu_solve", "solve", "solve_triangular")}
LARGEST = 20_000  # largest problem in elements
NATIVE = {kind.symbol: kind.numpy_dtype for kind in bk.ElementKind if kind.bits >= 8}
# Numbers that C takes in arrays, by C's names.
MOVES = {
    "flip_axes": lambda p: tuple(d for d, mask in enumerate(p.host["flip_axes"]) if mask),
    "shifts": lambda p: p.host["shifts"],
    "dims": lambda p: p.host["dims"],
    "pad_low": lambda p: p.host["pad_low"],
    "pad_high": lambda p: tuple(
        [o - i - low for o, i, low in zip(wide_of(p), p.host["input_shape"], p.host["pad_low"])]),
    "concat_dim": lambda p: p.scalars["concat_dim"],
    **{name: lambda p, name=name: p.host[name] for name in (
        "kernel_size", "dilation", "padding", "steps", "padding_after", "output_padding"
    )},
    "output_size": lambda p: p.host["input_shape"][2:],
    "value": lambda p: value_in(p).item(),
    "tokens_first": lambda p: False,
    "time_first": lambda p: "dim" in p.scalars,
    "shared": lambda p: channel_axis_of(p),
}  # fmt: skip
CODES = {"book": bk.CodeBook, "float_format": bk.FloatFormat, "mx_format": bk.MxFormat, "scale_rule": bk.ScaleRule,
         "scale_layout": bk.ScaleLayout, "fp8_scaling": bk.Fp8Scaling, "scoring": bk.ExpertScoring,
         "cell": bk.CellKind,
         "group_score": bk.ExpertGroupScore}  # fmt: skip
REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def cells(array):
    """A NumPy array of the values, with the strides of the problem."""
    values = encode(array.values, array.dtype).view(NATIVE[array.dtype]).reshape(array.shape)
    if array.strides is None or not values.size:
        return values
    reach = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides)]
    first = -sum(r for r in reach if r < 0)
    bits = values if values.dtype.kind == "c" else values.view(f"u{values.itemsize}")  # fp8 has no array interface
    memory = np.zeros(first + sum(r for r in reach if r > 0) + 1, bits.dtype)
    steps = [stride * values.itemsize for stride in array.strides]
    placed = np.lib.stride_tricks.as_strided(memory[first:], array.shape, steps)
    placed[...] = bits
    return placed.view(values.dtype)


def axes_of(spec, problem):
    """The axes that a problem reduces or normalizes."""
    for name in ("norm_axes_mask", "reduce_axes_mask"):
        if name in problem.scalars:
            return tuple(d for d in range(problem.scalars["rank"]) if problem.scalars[name] >> d & 1)
    if "stride_dy" in problem.host and spec.layout == "reduce_backward":
        return tuple(d for d, stride in enumerate(problem.host["stride_dy"]) if stride == 0)
    return next(value for name, value in problem.scalars.items() if name.endswith(("_axis", "_dim")))


def array_of(spec, problem, argument):
    """The array that a function takes for an operand of a problem."""
    if argument.name in spec.absent or argument.pointer in problem.null:
        return None
    if not argument.pointer:
        words = spec.extents.get(argument.name, "").split(", ")
        extents = [problem.scalars[word.split(" by ")[0]] for word in words if word]
        like = problem.arrays[spec.outputs[0].pointer]  # a result has the shape of the argument
        return np.zeros(extents or like.shape, NATIVE[problem.arrays.get("dy", like).dtype])
    array = problem.arrays[argument.pointer]
    shape = next(param.shape for param in spec.row.params if param.name == argument.pointer)
    if shape == "norm_total_extent":
        return cells(array).reshape([problem.host["shape"][a] for a in axes_of(spec, problem)])
    if shape == "row_count":
        axes, extents = axes_of(spec, problem), problem.host["shape"]
        return cells(array).reshape([1 if a in axes else extent for a, extent in enumerate(extents)])
    if shape == "group_count" and problem.scalars.get("group_kind", 1):
        return cells(array).reshape(problem.scalars["n_extent"], -1)
    if shape == "results" and problem.scalars["reduction_mode"]:
        return cells(array).reshape(())
    if shape == "results" and "inner_extent" in problem.scalars:
        return cells(array).reshape(problem.scalars["n_rows"], -1)
    if shape == "targets_numel" and not problem.scalars["is_concatenated"]:
        return cells(array).reshape(problem.scalars["batch_size"], -1)
    if shape == "q_count, rows_numel":
        return cells(array).reshape(problem.scalars["q_count"], *problem.host["rows_shape"])
    if is_mean_over_batch(problem) and shape == "numel":
        return cells(array).reshape(problem.scalars["batch"], -1)
    if shape == "scale_count":
        extents = (problem.scalars["rows"], problem.scalars["columns"])
        return cells(array).reshape(fp8_scale_shape(*extents, bk.Fp8Scaling(problem.scalars["fp8_scaling"])))
    if spec.layout == "reduce_backward" and argument.name in ("dy", "y"):
        axes = axes_of(spec, problem)
        return cells(array)[tuple(slice(0, 1) if d in axes else slice(None) for d in range(len(array.shape)))]
    return cells(array)


def is_mean_over_batch(problem):
    """Whether a loss divides by the given extent of the first axis instead of the number of elements."""
    scalars = problem.scalars
    return "batch" in scalars and scalars.get("reduction_mode") == 1 and scalars["batch"] != scalars["numel"]


def wide_of(problem):
    """The extents of a padded result."""
    return problem.host.get("output_shape") or problem.arrays["dy" if "dy" in problem.arrays else "y"].shape


def channel_axis_of(problem):
    """The axis behind which `shared` elements are dropped together."""
    shape, shared = problem.host["shape"], problem.scalars["shared"]
    return None if shared == 1 else next((d for d in range(len(shape)) if math.prod(shape[d + 1 :]) == shared), None)


def numbers_of(spec, problem):
    """The numbers of a call by name."""
    found = {}
    for number in spec.numbers:
        if number.name in spec.absent:
            continue
        value = problem.scalars.get(number.number)
        if number.name == "axis" and number.number not in MOVES and spec.layout != "roll":
            value = axes_of(spec, problem)
        elif number.number in MOVES:
            value = MOVES[number.number](problem)
        elif number.name == "keepdims":
            value = True
        elif number.name == "size":
            of_axis = spec.layout in ("accumulated", "unfold", "topk_backward")
            value = value if of_axis else problem.host["output_shape"]
        elif number.number == "inv_tau":
            value = 1 / value
        elif number.number == "mode":
            value = bk.EmbeddingBagMode(value).name.lower()
        elif number.number == "reduction_mode":
            value = "batchmean" if is_mean_over_batch(problem) else REDUCTIONS[value]
        elif number.name == "padding_idx":
            value = value if 0 <= value < problem.scalars["num_embeddings"] else None
        elif number.number == "reduce":
            value = bk.ScatterReduction(value)
        elif number.name == "dtype":
            value = problem.arrays[spec.outputs[0].pointer].dtype
        elif number.number == "interpolation":
            value = bk.QuantileInterpolation(value).name.lower()
        elif number.number == "backend":
            value = value == BATCH_INVARIANT
        elif number.number in CODES:
            value = CODES[number.number](value).name.lower()
        elif number.number in FLAGS:
            value = bool(value)
        elif spec.layout == "roll":
            value = tuple(range(problem.scalars["rank"]))
        found[number.name] = value
    return found


def is_of(spec, problem):
    """Whether a problem of the row belongs to the function."""
    if any(a.pointer in problem.null and a.default is REQUIRED for a in spec.arrays):
        return False
    taken = {*problem.null, *[a.pointer for a in spec.arrays]}
    if any(p.direction == "in?" and p.name in problem.arrays and p.name not in taken for p in spec.row.pointers):
        return False  # the function does without this operand
    if sum(array.bits().size for array in problem.arrays.values() if array.values is not None) > LARGEST:
        return False
    if spec.layout == "pad" and (
        min(problem.host["pad_low"], default=0) < 0 or min(MOVES["pad_high"](problem), default=0) < 0
    ):
        return False  # they crop
    if spec.layout == "reduce_to":
        return all(want in (1, have) for have, want in zip(problem.host["input_shape"], problem.host["output_shape"]))
    scalars = problem.scalars
    if scalars.get("shared", 1) != 1 and channel_axis_of(problem) is None:
        return False  # these elements are not those behind an axis
    if is_mean_over_batch(problem) and (scalars["numel"] == 0 or scalars["numel"] % scalars["batch"]):
        return False  # rows are not whole
    if any(scalars.get(name, 1) not in (1, scalars.get("numel")) for name in ("weight_extent", "pos_weight_extent")):
        return False  # the problem has no axes
    if "ignore_index" in {n.name for n in spec.numbers} & set(spec.absent) and scalars["reduction_mode"] == 1:
        return False  # another op has the mean over rows that count
    cells_of_rows = scalars.get("n_rows", 0) * scalars.get("class_extent", 0)
    if scalars.get("dinput_numel", cells_of_rows) != cells_of_rows and spec.extents:
        return False
    return all(scalars[name] == (float(text) if text[0].isdigit() else scalars[text])
               for name, text in spec.fixed.items() if not (name == "num_groups" and text == "1"))  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(CALLED) - set(PRODUCTS) - ROTARY - MOVED - SEARCHES - QUANTIZING - IMAGES))
def test_problems_of_the_cases(name):
    """Each problem, of each row of the function, is called twice: the second call only fills in addresses."""
    whole = CALLED[name]
    for spec in (whole, *whole.others):
        tried = 0
        with Tries() as tries:
            for row in spec.rows:
                case = CASES[row.name]
                main = "f32" if "f32" in row.slots["T"] else row.slots["T"][0]  # the dtype whose problems are all tried
                for op, slots in instances(row):
                    if not is_served(spec, slots):
                        continue
                    for label in case.problems if slots["T"] == main else (case.plain, *case.brief[:2]):
                        problem = case.problems[label](Draw(slots, label))
                        if is_of(spec, problem):
                            tried += 1
                            with tries(f"{op}, {label}"):
                                run(whole, spec, case, op, problem)
        assert tried > 2


def is_served(spec, slots):
    """Whether the row, with its dtype of results, serves the function."""
    if spec.row.family in ("conv", "quantize"):  # by the argument dtype
        return True
    results = spec.row.slots.get("U", ("i64",))
    given = {param.dtype for param in spec.row.pointers if not param.is_output}
    if "I" in slots and "I" not in given and slots["I"] != spec.row.slots["I"][0]:
        return False  # results have the first dtype of indices
    return slots.get("F", spec.function) == spec.function and slots.get("U", "i64") == (
        "f64" if "f64" in results else "i64"
    )


def run(whole, spec, case, op, problem):
    """Calls the function on a problem of one of its rows."""
    arrays = {argument.name: array_of(spec, problem, argument) for argument in spec.arrays}
    for _ in range(2):
        if spec.row.accumulates:
            arrays["out"] = cells(problem.arrays[spec.row.accumulates])
        found = getattr(bk, whole.name)(**arrays, **numbers_of(spec, problem))
        check(spec, case, op, problem, found if len(spec.outputs) > 1 else (found,))


def instances(row):
    for dtypes in itertools.product(row.functions or ("",), *row.slots.values()):
        slots = dict(zip(("F", *row.slots), dtypes))
        named = {slot: SUFFIXES[slot][dtype] if slot in SUFFIXES else dtype for slot, dtype in slots.items()}
        yield row.pattern.format(**named), slots


WIDE = {"i": np.int64, "u": np.int64, "b": np.int64, "c": np.complex128}


def check(spec, case, op, problem, results):
    expected = case.reference(problem)
    for output, result in zip(spec.outputs, results):
        want = expected.get(output.pointer)
        if want is not None:
            dtype = problem.arrays[output.pointer].dtype
            got = np.asarray(result)
            is_flag = spec.slot_of(output) == "u8" and spec.row.family not in OF_BYTES  # flags are bools
            assert got.dtype == NATIVE["bool" if is_flag else dtype]
            wide = np.uint64 if got.dtype == np.uint64 else WIDE.get(got.dtype.kind, np.float64)
            got = got.astype(wide).reshape(want.value.shape)
            tolerances.check(f"{op}: {output.name}", got, dtype, want, case.tolerance_of(output.pointer, True))


# --- shapes that C has not --------------------------------------------------------------------------------------------

AXES = (None, 0, 1, 2, -1, (0, 1), (0, 2), (2, 1), (0, 1, 2), (-1,), ())
LAYOUTS = {
    "dense": lambda a: a,
    "columns": lambda a: a.T.copy().T,
    "permuted": lambda a: a.transpose(2, 0, 1).copy().transpose(1, 2, 0),
    "backwards": lambda a: np.flip(np.flip(a).copy()),
    "gaps": lambda a: np.repeat(a[..., None], 2, -1)[..., 0],
    "broadcast": lambda a: np.broadcast_to(a[:, :1], a.shape),
}
UFUNCS = ("sum", "mean", "max", "min", "prod", "norm2", "logsumexp", "var", "std", "any", "all", "count_nonzero")


def normalized(axis, rank):
    return tuple(range(rank)) if axis is None else tuple(a % rank for a in np.atleast_1d(np.array(axis, int)))


@pytest.mark.parametrize("name", UFUNCS)
def test_any_axes(rng, name):
    """One, several, all or none of the axes, kept or not, in any layout, also into an array of the caller."""
    x = odd(rng, (3, 4, 5), -2, 2)
    parameters = {"correction": 1} if name in ("var", "std") else {}
    for axis, layout, keepdims in itertools.product(AXES, LAYOUTS, (False, True)):
        given, axes = LAYOUTS[layout](x), normalized(axis, 3)
        want = reduced(name, given, axes, "f64", **parameters).value
        want = np.asarray(want if keepdims else np.squeeze(want, axes), np.float64)
        got = getattr(bk, name)(given, axis=axis, keepdims=keepdims)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        out = np.ones_like(got.T).T
        assert getattr(bk, name)(given, axis=axis, keepdims=keepdims, out=out) is out
        np.testing.assert_array_equal(out, got)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_indices_of_extremes(rng, name):
    for dtype, layout, keepdims in itertools.product((np.float32, np.int32, np.uint8), LAYOUTS, (False, True)):
        x = LAYOUTS[layout](rng.integers(0, 9, (3, 4, 5)).astype(dtype))
        for axis in (None, 0, 1, 2, -1):
            got = getattr(bk, name)(x, axis=axis, keepdims=keepdims)
            want = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(got, want)
            assert got.dtype == np.int64
    for layout in LAYOUTS:  # several axes are in row-major order
        x = LAYOUTS[layout](rng.integers(0, 9, (3, 4, 5)).astype(np.float32))
        want = getattr(np, name)(np.moveaxis(x, 1, 0).reshape(4, 15), axis=1)
        np.testing.assert_array_equal(getattr(bk, name)(x, axis=(0, 2)), want)
        values, indices = getattr(bk, f"{name}_with_value")(x, axis=(0, 2))
        np.testing.assert_array_equal(values, getattr(bk, name.removeprefix("arg"))(x, axis=(0, 2)))
        np.testing.assert_array_equal(indices, want)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "norm2", "logsumexp", "var", "std"])
def test_gradients_of_any_axes(rng, name):
    """Gradients match finite differences, with dy of either shape and broadcast or not."""
    x, step = rng.uniform(0.5, 2, (3, 4, 5)), 1e-6
    function, backward = getattr(bk, name), getattr(bk, f"{name}_backward")
    names = [argument.name for argument in specs()[f"{name}_backward"].arrays]
    for axis, layout, keepdims in itertools.product(AXES, ("dense", "columns"), (False, True)):
        given = LAYOUTS[layout](x)
        if name in ("var", "std") and normalized(axis, 3) == ():
            continue  # sets of one element
        y = function(given, axis=axis, keepdims=keepdims)
        for dy in (odd(rng, y.shape, 1, 2), np.broadcast_to(np.float64(1.5), y.shape)):
            values = {"dy": dy, "x": given, "y": y}
            dx = backward(*[values[n] for n in names], axis=axis, keepdims=keepdims)
            assert dx.shape == x.shape
            way = odd(rng, x.shape, -1, 1)
            after, before = (function(given + s * way, axis=axis, keepdims=keepdims) for s in (step, -step))
            np.testing.assert_allclose((dx * way).sum(), (dy * (after - before)).sum() / (2 * step), 1e-6, 1e-8)


SIZES = (((4, 5), 0), ((1, 4, 5), 0), ((3, 1, 5), 1), ((4, 1), (0, 2)), ((1,), None), ((), None))  # and their axes


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "count_nonzero"])
def test_reductions_of_integers_to_a_size(rng, name):
    x = rng.integers(-3, 4, (3, 4, 5)).astype(np.int16)
    kinds = (x, x.astype(np.uint8), x > 0, x.astype(np.float32)) if name in ("any", "all", "count_nonzero") else (x,)
    for given, (size, axes) in itertools.product(kinds, SIZES):
        for layout in ("dense", "columns"):
            y = getattr(bk, f"{name}_to_size")(LAYOUTS[layout](given), size)
            wanted = getattr(bk, name)(given, axis=axes)
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y, wanted.reshape(size))


@pytest.mark.parametrize(
    "name", ["sum", "mean", "max", "min", "prod", "norm2", "logsumexp", "var", "std", "nanmax", "nanmin", "norm_p"]
)
def test_reductions_to_a_size(rng, name):
    """A size reduces as the axes do, and so do the gradients; it may lack the first axes."""
    x = rng.uniform(0.5, 2, (3, 4, 5))
    numbers = {"p": 3.0} if name == "norm_p" else {}
    function, backward = (
        functools.partial(getattr(bk, f"{name}{end}"), **numbers) for end in ("_to_size", "_to_size_backward")
    )
    along, along_backward = (functools.partial(getattr(bk, f"{name}{end}"), **numbers) for end in ("", "_backward"))
    names = [argument.name for argument in specs()[f"{name}_to_size_backward"].arrays]
    for size, axes in SIZES:
        for layout in ("dense", "columns", "backwards"):
            given = LAYOUTS[layout](x)
            y = function(given, size)
            np.testing.assert_allclose(y, along(given, axis=axes).reshape(size), rtol=1e-13)
            dy = odd(rng, size, 1, 2)
            values = {"dy": dy, "x": given, "y": y}
            dx = backward(*[values[n] for n in names])
            whole = np.reshape(dy, (1,) * (3 - len(size)) + size)
            others = {"dy": whole, "x": given, "y": y.reshape(whole.shape)}
            wanted = along_backward(*[others[n] for n in names], axis=axes, keepdims=True)
            np.testing.assert_allclose(dx, wanted, rtol=1e-13)
    with pytest.raises(bk.InvalidProblemError, match="dy has shape"):
        backward(*[np.ones((3, 4)) if n != "x" else x for n in names])


class Foreign:
    """An array of another library that only has the array interface."""

    def __init__(self, array):
        self.__array_interface__, self.array = array.__array_interface__, array


def test_kinds_of_arrays(rng):
    """The library copies views that C requires in another order."""
    x = odd(rng, (3, 4, 5), -2, 2).astype(np.float32)
    for layout, kind in itertools.product(LAYOUTS, (bk.tensor, Foreign)):
        given = LAYOUTS[layout](x)
        for axis in AXES:
            got = bk.sum(kind(given), axis=axis)
            assert isinstance(got, bk.TensorRef)
            np.testing.assert_array_equal(bk.download(got), bk.sum(given, axis=axis))
        for name in ("softmax", "layer_norm", "batch_norm", "instance_norm"):
            np.testing.assert_array_equal(bk.download(getattr(bk, name)(kind(given))), getattr(bk, name)(given))
        product = bk.matmul(kind(given), kind(np.swapaxes(given, 1, 2)))
        np.testing.assert_array_equal(bk.download(product), bk.matmul(given, np.swapaxes(given, 1, 2)))


def test_checks_see_what_is_copied_and_what_is_dropped():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with bk.checked(nan="raise"):
        assert bk.sum(x, axis=(0, 2)).tolist() == x.sum((0, 2)).tolist()
        np.testing.assert_array_equal(bk.batch_norm(x.transpose(0, 2, 1)), bk.batch_norm(x.transpose(0, 2, 1).copy()))
        with pytest.raises(bk.CheckError, match="so is an element of x"):
            bk.max(np.float32([1, np.nan]))


def test_invalid_axes():
    x = np.ones((2, 3), np.float32)
    for wrong, text in ((2, "axis is 2, must be <= 1"), ((0, -2), "which has an axis twice"), ("0", "axis is '0'")):
        for name in ("sum", "layer_norm", "softmax"):
            if name != "softmax" or not isinstance(wrong, tuple):
                with pytest.raises(bk.InvalidProblemError, match=text):
                    getattr(bk, name)(x, axis=wrong)
    with pytest.raises(bk.InvalidProblemError, match=r"keepdims is 1, must be a bool"):
        bk.sum(x, keepdims=1)
    with pytest.raises(bk.InvalidProblemError, match=r"dy has shape \(3,\), expected \(2,\)"):
        bk.sum_backward(x[0], x, axis=1)


def test_omitted_operands():
    """Statistics that are not requested, absent gamma and beta, and their gradients."""
    x = np.random.default_rng(3).standard_normal((4, 6))
    for name in ("layer_norm", "rms_norm", "batch_norm", "instance_norm"):
        given = x[:, :, None] if name == "instance_norm" else x
        results = getattr(bk, f"{name}_forward")(given)
        np.testing.assert_array_equal(results[0], getattr(bk, name)(given))
        whole = getattr(bk, f"{name}_backward")(given, given, *results[1:])
        for k in range(len(whole)):
            needs = [j == k for j in range(len(whole))]
            part = getattr(bk, f"{name}_backward")(given, given, *results[1:], needs=needs)
            np.testing.assert_allclose(part[k], whole[k], 1e-12)
            assert [each is None for each in part] == [not need for need in needs]


def test_rows_that_serve_a_call(rng):
    """Means of integers, ignored classes, weights of trailing axes, the mean over a batch."""
    whole = rng.integers(0, 9, (3, 4, 5)).astype(np.int32)
    np.testing.assert_allclose(bk.mean(whole, axis=(0, 2)), whole.mean((0, 2)), 1e-15)
    x, target = rng.standard_normal((4, 3)), np.array([0, -100, 2, 1])
    each = -np.log(np.exp(x) / np.exp(x).sum(1, keepdims=True))[np.arange(4), target % 3] * (target >= 0)
    weight = np.array([1.0, 2.0, 0.5])
    np.testing.assert_allclose(bk.cross_entropy(x, target), each.sum() / 3, 1e-12)
    np.testing.assert_allclose(bk.cross_entropy(x, target, reduction="none"), each, 1e-12)
    weighted = (each * weight[target % 3]).sum() / (1 + 0.5 + 2)
    np.testing.assert_allclose(bk.cross_entropy(x, target, weight), weighted, 1e-12)
    loss, dx = bk.cross_entropy_with_gradient(x, target, weight)
    np.testing.assert_allclose(loss, weighted, 1e-12)
    whole = bk.cross_entropy_forward(x, target, weight)
    np.testing.assert_array_equal(dx, bk.cross_entropy_backward(np.ones(()), x, target, weight, whole[1]))
    scaled = bk.cross_entropy_with_gradient(x, target, weight, np.array(3.0))
    np.testing.assert_allclose(scaled[1], 3 * dx, 1e-12)
    own = x.copy()
    bk.cross_entropy_with_gradient(own, target, weight, out=(np.empty(()), own))
    np.testing.assert_array_equal(own, dx)
    ones = (x > 0).astype(np.float64)
    losses = np.log1p(np.exp(-x)) * ones * weight + np.log1p(np.exp(x)) * (1 - ones)
    got = bk.binary_cross_entropy_with_logits(x, ones, None, weight)
    np.testing.assert_allclose(got, losses.mean(), 1e-12)
    share = np.abs(x)
    np.testing.assert_allclose(
        bk.kl_div(x, share, reduction="batchmean"), (share * (np.log(share) - x)).sum() / 4, 1e-12
    )
    np.testing.assert_allclose(bk.kl_div(x, x, log_target=True), 0, atol=1e-15)

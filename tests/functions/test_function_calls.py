# SPDX-License-Identifier: Apache-2.0
"""The calling convention of functions on arrays: signatures, Python numbers, errors, threads."""

import ast
import concurrent.futures
import copy
import inspect
import itertools
import math
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import baracuda as bk
from baracuda import functions
from baracuda._functions import dispatch
from baracuda._functions.spec import PLAN_ONLY, REQUIRED, specs
from baracuda._library.op_table import rows
from naming import Tries

OFFSETS = np.array([0, 2, 6], np.int32)


# --- signatures -------------------------------------------------------------------------------------------------------


def test_every_row_has_a_function():
    """Excluded are ops of plans only, rows whose twin takes f64 parameters, and in-place rows."""
    every = [each for spec in specs().values() for each in (spec, *spec.others)]
    used = {row.name for spec in every for row in spec.rows}
    patterns = {pattern for spec in every for pattern in spec.patterns}
    for row in rows():
        name = row.pattern.removesuffix("_strided")
        functions = [name.replace("{F}", function) for function in row.functions or ("",)]
        twins = [p.replace("_{T}", "_param_{T}").replace("_backward_param", "_param_backward") for p in functions]
        if row.name.startswith(PLAN_ONLY):
            continue
        missing = [p for p, twin in zip(functions, twins) if not {p, twin} & patterns and "_inplace" not in p]
        assert not missing, f"no function stands for {missing} of the row [{row.name}]"
    assert used


@pytest.mark.parametrize("name", specs())
def test_signature_and_help(name):
    function, spec = getattr(bk, name), specs()[name]
    parameters = inspect.signature(function).parameters
    required = [a.name for a in spec.positional if a.default is REQUIRED]
    assert required == [a.name for a in (*spec.arrays, *spec.numbers) if a.default is REQUIRED]
    assert [p for p in parameters if parameters[p].default is inspect.Parameter.empty] == required
    keywords = [p for p in parameters if parameters[p].kind is inspect.Parameter.KEYWORD_ONLY]
    assert keywords[-1] == "out"
    assert ("needs" in keywords) == spec.is_partial
    for text in ("dtypes: ", "InvalidProblemError", "Deterministic"):
        assert text in function.__doc__
    assert function.__name__ == name
    assert getattr(bk, name) is function
    assert name in dir(bk)


def test_unknown_names():
    for name in ("frobnicate", "_missing", "specs", "functions_"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(bk, name)


def test_names_and_order_are_those_of_numpy_and_pytorch():
    a, b = np.float64([-7, 7, -7.5]), np.float64([2, -2, 2])
    np.testing.assert_array_equal(bk.remainder(a, b), np.remainder(a, b))
    np.testing.assert_array_equal(bk.fmod(a, b), np.fmod(a, b))
    np.testing.assert_array_equal(bk.clamp(a, min=-1, max=1.0), np.clip(a, -1, 1))
    assert str(inspect.signature(bk.leaky_relu)) == "(x, *, negative_slope=0.01, out=None)"
    assert str(inspect.signature(bk.mul_backward)) == "(dy, a, b, *, needs=None, out=None)"
    assert str(inspect.signature(bk.lerp)) == "(a, b, weight, *, out=None)"


@pytest.mark.parametrize(
    ("name", "numbers", "x", "y"),
    [
        ("hardtanh", {"min_val": -0.5, "max_val": 2}, [-3, 1, 3], [-0.5, 1, 2]),
        ("softplus", {"beta": 2, "threshold": 1}, [1], [1]),  # 2 x is beyond 1
        ("threshold", {"threshold": 2, "value": -1}, [1, 3], [-1, 3]),
        ("selu", {"alpha": 0, "scale": 3}, [-1, 2], [0, 6]),
        ("affine", {"scale": 2, "offset": -1}, [3], [5]),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_numbers_go_by_their_names(name, numbers, x, y):
    """Other tests give numbers in C's order, in which two names could be interchanged unnoticed."""
    assert getattr(bk, name)(np.float64(x), **numbers).tolist() == y


# --- Python numbers ---------------------------------------------------------------------------------------------------


def test_python_numbers_take_the_dtype_of_the_arrays():
    a = np.float16([1, 2])
    assert bk.add(a, 1).dtype == bk.add(1.0, a).dtype == np.float16
    assert bk.add(np.int8([1]), 2).tolist() == [3]
    assert bk.add(np.int8([1]), True).tolist() == [2]
    assert bk.add(1, 2).tolist() == 3
    assert bk.add(1, 2.5).dtype == np.float64
    for value in (2.0, -0.0, 0.0, math.inf):
        assert math.copysign(1, bk.mul(np.float32([1]), value)[0]) == math.copysign(1, value)
    with pytest.raises(bk.InvalidProblemError, match="add: b is 300, must be <= 127"):
        bk.add(np.int8([1]), 300)
    bk.add(np.int8([1]), 3)
    with pytest.raises(bk.InvalidProblemError, match="b is 300, must be <= 127"):
        bk.add(np.int8([1]), 300)
    with pytest.raises(bk.InvalidProblemError, match=r"b is 1\.5, must be an integer"):
        bk.add(np.int8([1]), 1.5)
    with pytest.raises(bk.InvalidProblemError, match="b is 1, must be a bool"):
        bk.logical_and(np.array([True]), 1)


def test_numbers_that_compare_equal_are_told_apart():
    x = np.float32([-1])
    assert math.copysign(1, bk.leaky_relu(x, negative_slope=0.0)[0]) == -1
    assert math.copysign(1, bk.leaky_relu(x, negative_slope=-0.0)[0]) == 1
    assert math.isnan(bk.leaky_relu(x, negative_slope=math.nan)[0])
    assert math.isnan(bk.leaky_relu(x, negative_slope=math.nan)[0])
    assert bk.leaky_relu(x)[0] == np.float32(-0.01)
    bk.leaky_relu(x, negative_slope=1.0)
    for wrong in (None, True, math, ...):
        with pytest.raises(bk.InvalidProblemError, match=r"negative_slope is .*, must be a real number"):
            bk.leaky_relu(x, negative_slope=wrong)
    bk.affine(np.int8([1]), 2)
    with pytest.raises(bk.InvalidProblemError, match=r"scale is 2\.0, must be an integer"):
        bk.affine(np.int8([1]), 2.0)
    with pytest.raises(bk.InvalidProblemError, match="negative_slope is '1', must be a real number"):
        bk.leaky_relu(x, negative_slope="1")
    with pytest.raises(bk.InvalidProblemError, match=r"negative_slope is \[1\]"):
        bk.leaky_relu(x, negative_slope=[1])


# --- errors -----------------------------------------------------------------------------------------------------------

F32 = np.ones((3, 4), np.float32)
READ_ONLY = F32.copy()
READ_ONLY.flags.writeable = False
INVALID, UNSUPPORTED = bk.InvalidProblemError, bk.UnsupportedError
ERRORS = [
    (lambda: bk.add(F32, F32.astype(np.float64)), INVALID, "add: b has dtype f64, expected f32"),
    (lambda: bk.gelu(np.ones(3, np.int32)), UNSUPPORTED, "gelu: x has dtype i32, must be one of f32, f16, bf16, f64"),
    (lambda: bk.gelu(np.ones(3, np.complex64)), UNSUPPORTED, "gelu: x has dtype c32"),
    (lambda: bk.gelu(np.ones(3, ">f4")), UNSUPPORTED, "gelu: x: dtype is '>f4'"),
    (lambda: bk.add(F32, np.ones(3, np.float32)), INVALID, r"add: shapes do not broadcast: a \(3, 4\), b \(3,\)"),
    (lambda: bk.gelu(F32, out=np.ones(3, np.float32)), INVALID, r"gelu: out has shape \(3,\), expected"),
    (lambda: bk.gelu(F32, out=np.ones((3, 4))), INVALID, "gelu: out has dtype f64, expected f32"),
    (lambda: bk.gelu(F32, out=READ_ONLY), INVALID, "gelu: out is read-only"),
    (lambda: bk.gelu(F32[:, :3], out=F32[:, 1:]), INVALID, "gelu: out overlaps x"),
    (lambda: bk.gelu("x"), INVALID, "gelu: x is of type str"),
    (lambda: bk.gelu([1.0, 2.0]), INVALID, "gelu: x is of type list"),
    (lambda: bk.gelu(None), INVALID, "gelu: x is None"),
    (lambda: bk.add(F32, None), INVALID, "add: b is None"),
    (lambda: bk.mul_backward(F32, F32, None), INVALID, "mul_backward: b is None"),
    (lambda: bk.mul_backward(F32, F32, F32, needs=(False, False)), INVALID, "no result is wanted"),
    (lambda: bk.mul_backward(F32, F32, F32, needs=(True,)), INVALID, r"needs is \(True,\), must be 2 bools"),
    (lambda: bk.mul_backward(F32, F32, F32, out=F32), INVALID, r"(?s)out is .*, must be a tuple of \(da, db\)"),
    (lambda: bk.gelu(np.ones((1,) * 9, np.float32)), UNSUPPORTED, "gelu: x has rank 9; at most 8"),
    (lambda: bk.glu(np.ones((2, 3), np.float32)), INVALID, "glu: x has shape .*, must be even along axis 1"),
    (lambda: bk.glu(F32, axis=2), INVALID, "glu: axis is 2, must be <= 1"),
    (lambda: bk.glu(np.float32(1)), INVALID, "glu: axis is -1, but there is no axis"),
    (lambda: bk.prelu(F32, np.ones(3, np.float32)), INVALID, r"weight has shape \(3,\)"),
    (lambda: bk.cast(F32, "f33"), UNSUPPORTED, "cast: dtype is 'f33'"),
    (lambda: bk.cast(F32, bk.s4), UNSUPPORTED, "cast: 4-bit types"),
    (lambda: bk.cast(F32, bk.c64), UNSUPPORTED, "cast: dtype is c64, must be one of"),
    (
        lambda: bk.segment_sum(F32, np.zeros(2, np.int32), 4),
        INVALID,
        r"segment_ids has shape \(2,\), expected \(n = 3\)",
    ),
    (
        lambda: bk.segment_sum(F32, np.zeros(3, np.float32), 4),
        INVALID,
        "segment_ids has dtype f32, expected i32 or i64",
    ),
    (lambda: bk.segment_sum(F32, np.zeros(3, np.int32), -1), INVALID, "num_segments is -1"),
    (
        lambda: bk.embedding_bag(np.zeros(2, np.int32), F32, OFFSETS, mode="max"),
        INVALID,
        "mode is 'max', must be one of sum, mean",
    ),
    (lambda: bk.tile(F32, 0), INVALID, r"repeats\[0\] is 0"),
    (lambda: bk.tile_backward(F32, 3), INVALID, "must be a multiple of repeats"),
    (lambda: bk.tile(F32, 1.5), INVALID, "tile: repeats is 1.5, must be a sequence of at most 64 numbers"),
    (lambda: bk.roll(F32, 1.5), INVALID, "roll: shifts is 1.5, must be an integer"),
    (lambda: bk.concatenate(np.ones((3, 3, 9))), INVALID, r"concatenate: arrays is .{80}\.\.\., must be a list"),
    (lambda: bk.sum(F32, np.array([0, 1])), INVALID, r"sum: axis is array\(\[0, 1\]\), must be an integer"),
    (lambda: bk.permute(F32, np.array(1)), INVALID, r"permute: dims is array\(1\), must be a permutation"),
    (lambda: bk.tile_backward(F32, (1,) * 9), UNSUPPORTED, "tile_backward: .* has rank 9; at most 8 is supported"),
    (lambda: bk.im2col_backward(np.ones((1, 4, 9)), None, 2), INVALID, "im2col_backward: x is None, but is needed"),
    (lambda: bk.sum_backward(F32, None), INVALID, "sum_backward: x is None, but is needed for its shape"),
    (lambda: bk.kl_div(F32, F32, reduction=np.array([1, 2])), INVALID, "kl_div: reduction is array"),
    (lambda: bk.gelu(F32, out=1.0), INVALID, "gelu: out is 1.0, must be an array"),
    (lambda: bk.mean(np.ones(3, np.int8), 7), INVALID, "mean: axis is 7, must be <= 0"),
    (lambda: bk.add(np.ones(2, np.int8), F32), INVALID, "add: b has dtype f32, expected i8, that of a"),
    (lambda: bk.matmul(np.ones((2, 2), np.int8), np.ones((2, 2), np.int8)), UNSUPPORTED, "f32, f64, f16, bf16$"),
    (
        lambda: bk.embedding_backward(F32, np.zeros((3, 4), np.int32), 5),
        INVALID,
        r"dout has shape \(3, 4\), expected that of indices, \(3, 4\), and embedding_dim",
    ),
    (lambda: bk.powi(F32, 1.5), INVALID, "powi: n is 1.5, must be an integer"),
    (lambda: bk.affine(np.ones(2, np.int8), 300), INVALID, "scale is 300, must be <= 127"),
    (lambda: bk.gelu(np.ma.masked_array([1.0], [True])), UNSUPPORTED, "masked array"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[text for *_, text in ERRORS])
def test_errors(call, error, text):
    """The second attempt fails like the first: a failed call caches nothing."""
    for _ in range(2):
        with pytest.raises(error, match=text) as caught:
            call()
        assert caught.value.symbol


def test_addresses_are_checked_every_time():
    """A cached call does not skip the checks of addresses."""
    x, b = np.arange(10, dtype=np.float32), np.ones(9, np.float32)
    bk.add(x[:-1], b, out=np.empty(9, np.float32))
    with pytest.raises(bk.InvalidProblemError, match="overlaps"):
        bk.add(x[:-1], b, out=x[1:])
    assert bk.add(x[:-1], b, out=x[:-1]).tolist() == list(range(1, 10))
    bk.gelu(np.ones(10, np.float32))
    with pytest.raises(bk.MisalignedOperandError):
        bk.gelu(np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float32))
    fine, fixed = np.ones(9, np.float32), np.ones(9, np.float32)
    bk.add(b, b, out=fine)
    fixed.flags.writeable = False
    with pytest.raises(bk.InvalidProblemError, match="out is read-only"):
        bk.add(b, b, out=fixed)


def test_many_shapes_are_forgotten():
    """The cache of prepared calls is bounded."""
    with Tries() as tries:
        for extent in range(1, dispatch._MAX_CACHED // 16):
            with tries(extent):
                assert bk.neg(np.ones(extent, np.float32)).shape == (extent,)
    store = {}
    for k in range(dispatch._MAX_CACHED + 5):
        dispatch.keep(store, k, k)
    assert len(store) <= dispatch._MAX_CACHED


@pytest.mark.parametrize("name", dir(functions))
def test_what_is_said_of_a_function_is_not_about_c(name):
    """A function's help uses no names of C parameters, unless the function or extents of its arrays have them."""
    spec = specs()[name]
    known = {a.name for each in specs().values() for a in (*each.arrays, *each.numbers, *each.outputs)}
    known |= {word for param in spec.row.pointers for word in re.findall(r"\w+", param.shape)}
    of_c = {param.name for row in rows() for param in row.params if "_" in param.name} - known
    words = set(re.findall(r"\w+", functions.documentation(spec)))
    assert not words & (of_c | {"NULL", "workspace"})
    assert not any(re.match(r"(loss|reduce|unary|binary|gated)_", word) for word in words - set(specs()))


def test_what_is_said_of_a_function():
    of = {name: functions.documentation(spec).splitlines() for name, spec in specs().items()}
    assert of["prelu"][0] == "x for x > 0, else w x (He et al. 2015), w the one weight or that of the channel."
    assert "Results: y, mean. out is a tuple of them." in of["var_mean"]
    assert of["cross_entropy"][0].startswith("Cross entropy of logits x, (N, C) or (N, C, d...), with target")
    assert of["sum"][0] == "sum of x"
    assert not any("In the formulas" in line for line in of["logit"])


def test_the_stub_of_linalg_has_every_signature(tmp_path):
    files = [tmp_path / name for name in ("functions.pyi", "_plans.pyi", "_linalg.pyi")]
    root = pathlib.Path(bk.__file__).parent.parent
    subprocess.run([sys.executable, "-m", "tools.gen_stub", *files], cwd=root, check=True)
    written = {f.name: f for f in ast.parse(files[2].read_text()).body if isinstance(f, ast.FunctionDef)}
    assert sorted(written) == sorted(bk.linalg.__all__)
    for name, function in written.items():
        given = inspect.signature(getattr(bk.linalg, name))
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in given.parameters.values()]
        for argument in ast.walk(function.args):
            if isinstance(argument, ast.arg):
                assert argument.annotation is not None, name
                argument.annotation = None
        expected = ast.parse(f"def f{inspect.Signature(bare)}: ...").body[0].args
        assert ast.dump(function.args) == ast.dump(expected), name
        words = " ".join(ast.get_docstring(function).split())
        assert words in " ".join(inspect.getdoc(getattr(bk.linalg, name)).split()), name


def test_the_stub_has_every_signature(tmp_path):
    file = tmp_path / "functions.pyi"
    root = pathlib.Path(bk.__file__).parent.parent
    subprocess.run([sys.executable, "-m", "tools.gen_stub", file], cwd=root, check=True)
    body = ast.parse(file.read_text()).body
    written = {f.name: f.args for f in body if isinstance(f, ast.FunctionDef)}
    helpers = ("signature", "summary", "documentation")
    for name in (*helpers, *dir(functions)):
        arguments = written.pop(name)
        given = [*arguments.posonlyargs, *arguments.args]
        names = [a.arg for a in (*given, *arguments.kwonlyargs)]
        assert names == list(inspect.signature(getattr(functions, name)).parameters), name
        defaults = [*zip(given[::-1], arguments.defaults[::-1]), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for argument, default in defaults:
            if isinstance(default, ast.Constant) and default.value is None:
                assert re.search(r"None$|^Any$|^Array$", ast.unparse(argument.annotation)), (name, argument.arg)
    assert not written
    exported = next(s.value for s in body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "__all__")
    assert ast.literal_eval(exported) == dir(functions)  # `import *` of baracuda must not take the helpers


def test_threads(rng):
    """Threads call functions of all sorts at once and share prepared calls."""
    expected = {n: np.arange(n, dtype=np.float32) + 1 for n in range(1, 60)}

    def work(_):
        return [np.array_equal(bk.add(np.arange(n, dtype=np.float32), 1), expected[n]) for n in expected]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(itertools.chain(*pool.map(work, range(32))))


def test_functions_pickle():
    for name in ("gelu", "mul_backward"):
        assert pickle.loads(pickle.dumps(getattr(bk, name))) is getattr(bk, name)
        assert copy.deepcopy(getattr(bk, name)) is getattr(bk, name)


def test_a_workspace_and_results_that_are_dropped_take_the_short_way(rng):
    """Extra outputs and workspaces are allocated by the framework in each call, unless an allocator is set."""
    x, gamma = rng.standard_normal((4, 3, 5), dtype=np.float32), np.ones(3, np.float32)
    function = specs()["batch_norm"]
    expected = bk.batch_norm_forward(x, gamma)[0]
    np.testing.assert_array_equal(bk.batch_norm(x, gamma), expected)
    launchers = bk.batch_norm.__globals__["launchers"]
    assert len(function.unreturned_outputs) == 2 and len(launchers) > 0
    np.testing.assert_array_equal(bk.batch_norm(x, gamma), expected)
    out = np.empty_like(x)
    for _ in range(2):
        assert bk.batch_norm(x, gamma, out=out) is out
        np.testing.assert_array_equal(out, expected)
        out[...] = 0
    da, db = bk.mul_backward(x, x, gamma[:1], needs=(False, True))
    assert da is None and db.shape == (1,)
    blocks = []

    def allocate(nbytes, backend):
        blocks.append(nbytes)
        return np.empty(nbytes + 64, np.uint8)[:nbytes]

    dy, ids = np.ones((3, 2), np.float32), np.array([0, 2, 2, 2])  # a workspace holds the counts
    mean = [[1, 1], *[[np.float32(1 / 3)] * 2] * 3]
    for _ in range(2):
        np.testing.assert_array_equal(bk.segment_mean_backward(dy, ids), mean)
    bk.set_allocator(allocate)
    try:
        for _ in range(2):
            np.testing.assert_array_equal(bk.segment_mean_backward(dy, ids), mean)
    finally:
        bk.set_allocator(None)
    assert len(blocks) == 2
    table = bk.gather_backward(np.ones((4, 2), np.float32), np.zeros((4, 2), np.int64), 2, axis=0)
    again = bk.gather_backward(np.ones((4, 2), np.float32), np.zeros((4, 2), np.int64), 2, axis=0)
    assert table.tolist() == again.tolist() == [[4, 4], [0, 0]]  # operands that are accumulated into are cleared first


def test_an_axis_by_position():
    """The axis is positional, as in NumPy and PyTorch; optional arguments behind arrays stay keywords."""
    np.testing.assert_array_equal(bk.sum(F32, 0), F32.sum(0))
    np.testing.assert_array_equal(bk.softmax(F32, -1), bk.softmax(F32, axis=-1))
    np.testing.assert_array_equal(bk.triu(np.ones((2, 2), np.float32), 1), [[0, 1], [0, 0]])
    with pytest.raises(TypeError):
        bk.sum(F32, 0, True)


def test_texts_that_say_what_would_do():
    for call, text in (
        (lambda: bk.gelu([1.0]), "x is of type list.*: numpy.asarray makes one"),
        (lambda: bk.gelu(F32, out=[0]), "gelu: out is of type list"),
        (lambda: bk.add(F32, F32.astype(np.float64)), "b has dtype f64, expected f32, that of a: bk.cast converts"),
        (lambda: bk.softmax(np.ones((2, 3)), axis=2), r"axis is 2, must be <= 1: the shape is \(2, 3\)"),
    ):
        with pytest.raises(bk.InvalidProblemError, match=text):
            call()
    with pytest.raises(AttributeError) as caught:
        bk.gellu  # noqa: B018
    assert caught.value.name == "gellu" and caught.value.obj is bk  # Python suggests names of this object

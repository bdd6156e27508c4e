# SPDX-License-Identifier: Apache-2.0
"""Example programs of the functions in `call`: operands, the call, and the call of the gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from baracuda._functions.spec import REQUIRED, Argument, Spec
from baracuda._functions.spec import specs as all_specs

TABLE = "np.array([[0.5, 2, 3], [1, 0.25, 4]], np.float32)"
SHARES = "np.array([[0.2, 0.7, 0.9], [0.4, 0.5, 0.1]], np.float32)"
OTHERS = "np.array([[0.3, 0.6, 1], [0.1, 0.5, 0.2]], np.float32)"
LABELS = "np.array([2, 0])"
# Operands of losses by name, else by C's dtype and shape; operands of other functions by name.
OF_LOSSES = {
    ("T", "numel"): SHARES, ("i64", "numel"): "np.array([[1, -1, 1], [-1, 1, 1]])",
    ("T", "n_rows"): "np.array([1, -1], np.float32)", ("i64", "n_rows"): LABELS,
    ("I", "n_rows"): LABELS, ("T.compute", "pos_weight_extent"): "np.array([1, 2, 0.5], np.float32)",
    ("T.compute", "weight_extent"): OTHERS,
    ("T.compute", "class_extent"): "np.array([1, 2, 0.5], np.float32)",
    ("i64", "n_rows, class_extent"): "np.array([[0, -1, -1], [2, 0, -1]])",
    ("T", "n_rows, class_extent"): SHARES, ("T", "n_rows, d_extent"): SHARES,
    ("T", "max_time, batch_size, num_classes"): (
        "bk.log_softmax(np.array([[[0, 2, 1]], [[1, 0, 2]], [[2, 1, 0]]], np.float32))  # frames, samples, classes"
    ),
    ("I", "targets_numel"): "np.array([[1, 2]])", ("i64", "batch_size"): "np.array([3])",
    "target_lengths": "np.array([2])", ("T", "results"): "np.array(2, np.float32)",
}  # fmt: skip
BY_NAME = {
    "u": "np.random.default_rng(1).random((2, 3), np.float32)", "gamma": "np.array([1, 2, 3], np.float32)",
    "weight": OTHERS, "bias": "np.array([1, -1], np.float32)", "b": "np.array([[1, 0], [0, 1], [1, 1]], np.float32)",
    "beta": "np.array([0.5, 0, -0.5], np.float32)", "residual": OTHERS, "g": "np.array([[1], [2]], np.float32)",
    "running_mean": "np.array([1, 1, 2], np.float32)", "running_var": "np.array([1, 2, 0.5], np.float32)",
    "mask": "np.array([[True, True, False], [False, True, True]])", ("softmax", "bias"): OTHERS,
    ("masked_log_softmax", "mask"): "np.ones((2, 3), bool)",  # masked elements would be -inf
    "dsum": "np.full_like(y, 0.5)",
    ("grouped_linear", "weight"): "np.ones((2, 2, 3), np.float32)",
    ("grouped_gemm", "b"): "np.ones((2, 3, 2), np.float32)",  # one matrix per group of rows
    "offsets": "np.array([0, 1, 2], np.int32)", "up_bias": "np.array([0.5, 1], np.float32)",
}  # fmt: skip
SECOND = ("target", "x2", "positive")  # operands that must differ from the first one
NUMBERS = {"size": "(1, 3)", "num_groups": "3", "p": "3", "dtype": "np.float16"}
REDUCTIONS = ("reduce", "reduce_axes", "reduce_backward")


def programs(specs: Sequence[Spec]) -> Iterable[tuple[str, str]]:
    """(title, code) of each function of a page; a gradient follows its function."""
    known = {spec.name: spec for spec in specs}
    forwards = [s for s in specs if not s.name.endswith(("_backward", "_forward"))]
    for spec in forwards:
        stem = spec.name
        lines = [f"{a.name} = {operand(spec, a)}" for a in spec.arrays]
        yield spec.name, "\n".join([*lines, shown(spec)])
        gradient, whole = known.get(f"{stem}_backward"), all_specs().get(f"{stem}_forward", spec)
        if gradient is not None:
            yield f"Gradient of {stem}", "\n".join(of_gradient(whole, gradient))
    for gradient in specs:  # gradients of functions with other pages
        stem = gradient.name.removesuffix("_backward")
        if stem != gradient.name and stem not in known:
            whole = all_specs().get(stem) or all_specs()[stem.rpartition("_")[0]]  # for another operand: f_target
            lines = [f"{a.name} = {operand(whole, a)}" for a in whole.arrays]
            yield f"Gradient of {stem}", "\n".join([*lines, *of_gradient(whole, gradient)])


def of_gradient(whole: Spec, gradient: Spec) -> Iterable[str]:
    given = {a.name for a in whole.arrays}
    results = [output.name for output in whole.outputs]
    yield f"{', '.join(results)} = {call(whole)}"
    first = results[0]
    arriving = "dout" if "dout" in [a.name for a in gradient.arrays] else "dy"
    yield f"{arriving} = np.linspace(1, 2, {first}.size, dtype={first}.dtype).reshape({first}.shape)"
    for other in gradient.arrays:  # further incoming gradients
        if other.name not in (*given, *results, arriving):
            yield f"{other.name} = {BY_NAME[other.name]}"
    if len(gradient.outputs) == 1:
        yield f"print({call(gradient)})"
    else:
        names = ", ".join(output.name for output in gradient.outputs)
        yield f"{names} = {call(gradient)}"
        yield f'print({names}, sep="\\n")'


def shown(spec: Spec) -> str:
    """A call and its results, without the first element of an exclusive scan."""
    rest = "[:, 1:]" if spec.name.startswith("exclusive_") else ""
    star = "*" if len(spec.outputs) > 1 else ""
    return f"print({star}{call(spec)}{rest})"


def call(spec: Spec, *more: str) -> str:
    given = [NUMBERS[a.name] if a.number else a.name for a in spec.positional]
    along = ["axis=1"] if spec.layout in REDUCTIONS and "axis" in {n.name for n in spec.numbers} else []
    return f"bk.{spec.name}({', '.join([*given, *along, *more])})"


def operand(spec: Spec, argument: Argument) -> str:
    if spec.layout != "loss":
        named = [BY_NAME.get(key) for key in ((spec.name, argument.name), (spec.layout, argument.name), argument.name)]
        found = next(filter(None, named), TABLE)
        return found if "f32" in spec.row.slots.get("T", ("f32",)) else found.replace("float32", "float16")
    param = next(p for p in spec.row.params if p.name == argument.pointer)
    words = ", ".join(word.split(" by ")[0] for word in param.shape.split(", ") if word != "inner_extent")
    found = OF_LOSSES.get(argument.name) or OF_LOSSES[param.dtype, words]
    return OTHERS if found is SHARES and argument.name in SECOND else found


def has_programs(specs: Sequence[Spec]) -> bool:
    return any(spec.row.calls or spec.layout == "scan" for spec in specs) and all(
        number.default is not REQUIRED or number.name in NUMBERS for spec in specs for number in spec.numbers
    )

# SPDX-License-Identifier: Apache-2.0
"""Describes one op in text: `python -m baracuda ops gelu`."""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Iterator

from baracuda import composites, concatenation, functions
from baracuda._functions.spec import specs
from baracuda._library.op_table import Op, Row, ops, rows
from baracuda._library.param import Param
from baracuda.attention import functions as attention_functions
from baracuda.errors import BaracudaError
from baracuda.experts import functions as expert_functions
from baracuda.search import functions as search_functions
from baracuda.sorting import functions as sort_functions

_WIDTH = 116
_MOST_ALIKE = 5
_GUARANTEE = {"yes": "deterministic", "no": "not deterministic", "workspace": "deterministic with a workspace"}
_DIRECTION = {
    "in": "in", "in?": "in, may be NULL", "out": "out", "out?": "out, may be NULL", "inout": "in and out",
    "inout?": "in and out, may be NULL",
    "ins": "host array of inputs", "outs": "host array of outputs", "outs?": "host array of outputs, each may be NULL",
    "host": "host array",
}  # fmt: skip
# Words of an op's name that distinguish variants of one function.
FORMS = {"backward", "param", "strided", "exclusive", "indices", "inplace", "u8cond", "u32cond", "i64cond"}
# Prefixes that may be left out: gelu is unary_gelu.
# Modules of functions without a spec.
_WRITTEN = (concatenation, composites, attention_functions, expert_functions, search_functions, sort_functions)
_PREFIXES = ("", "unary_", "binary_", "binary_cmp_", "ternary_", "gated_", "scan_")


def guarantee(row: Row) -> str:
    """The row's determinism, with "workspace" if it uses one."""
    return _GUARANTEE[row.deterministic] + ", workspace" * (bool(row.workspace) and row.deterministic == "yes")


def find(name: str) -> list[tuple[Row, str]]:
    """(row, function) of the ops that a name may mean: a full op name (unary_gelu_f32), one without dtypes or arity
    (gelu, gelu_backward), or a function's name, which finds its gradients and variants too. An op may have the name of
    a function that calls others: it comes after these.
    """
    if name in ops():
        op = ops()[name]
        return list(dict.fromkeys([*_ops_of_function(name), (op.row, op.function)]))
    members = [(row, function) for row in rows() for function in row.functions or ("",)]
    full_names = {prefix + name for prefix in _PREFIXES}
    found = [m for m in members if base(*m) in full_names or m[1] == name] or [
        m for m in members if stem(*m) in full_names
    ]
    of_functions = [m for each in (name, f"{name}_backward") for m in _ops_of_function(each)]
    return list(dict.fromkeys([*of_functions, *found]))


def _ops_of_function(name: str) -> Iterator[tuple[Row, str]]:
    """The ops of a function on arrays, whose name may differ from the table's."""
    spec = specs().get(name)
    for each in () if spec is None else (spec, *spec.others):
        for row in each.rows:
            yield row, each.function if each.function in row.functions else ""


def describe(name: str) -> Iterator[str]:
    """Lines on the function and the ops of a name; none if there are none."""
    if name in specs():
        yield f"baracuda.{name}({functions.signature(specs()[name], whole=True)})"
        for paragraph in functions.documentation(specs()[name]).split("\n\n"):
            yield from _filled(paragraph)
        yield ""
    elif module := next((each for each in _WRITTEN if name in each.__all__), None):
        function = getattr(module, name)
        yield f"baracuda.{name}{inspect.signature(function)}"
        yield from _filled(inspect.getdoc(function) or "")
    for number, (row, function) in enumerate(find(name)):
        if number:
            yield ""
        op = ops().get(name)
        yield from _about(row, function, op if op and (op.row, op.function) == (row, function) else None)


def alike(name: str) -> list[str]:
    """Names of functions and ops that may have been meant."""
    made = {*specs(), *[each for module in _WRITTEN for each in module.__all__]}
    named = {*made, *[stem(row, function) for row in rows() for function in row.functions or ("",)]}
    words = name.lower().split("_")
    within = [each for each in named if all(word in each for word in words)]
    within.sort(key=lambda each: (any(form in each.split("_") for form in FORMS), len(each), each))
    return list(dict.fromkeys([*difflib.get_close_matches(name, sorted(named), n=3), *within]))[:_MOST_ALIKE]


def stem(row: Row, function: str) -> str:
    """The name without dtypes: unary_gelu_backward."""
    return re.sub(r"_?\{[TUIO]\}", "", row.pattern.replace("{F}", function))


def base(row: Row, function: str) -> str:
    """The common part of the names of a function's variants and gradients: unary_gelu."""
    return "_".join(word for word in stem(row, function).split("_") if word not in FORMS)


def _about(row: Row, function: str, op: Op | None) -> Iterator[str]:
    slots = "; ".join(f"{{{slot}}}: {' '.join(dtypes)}" for slot, dtypes in row.slots.items())
    yield f"{row.pattern.replace('{F}', function)}    {slots}"
    if function:
        yield from _filled(row.functions[function])
    yield from _filled(row.doc.replace("{F}", function))
    width = max(len(param.name) for param in row.params)
    for param in row.params:
        yield f"    {param.name:{width}s}  {_meaning(row, function, param)}"
    yield from _filled(_promises(row))
    first = next(op for op in ops().values() if op.row is row and op.function == function)
    yield from _prototype(op or first)


def _filled(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _meaning(row: Row, function: str, param: Param) -> str:
    dtype = f"{{{param.dtype}}}" if param.dtype in row.slots else param.dtype
    text = f"{dtype} [{param.shape}]" if param.shape else dtype
    if param.direction:
        return f"{text}  {_DIRECTION[param.direction]}"
    default = row.defaults.get(function, {}).get(param.name)
    return text if default is None else f"{text}  usually {default}"


def _promises(row: Row) -> str:
    parts = [guarantee(row).partition(",")[0]]
    parts += [f"{out} may be {' or '.join(inputs)}" for out, inputs in row.in_place.items() if inputs]
    parts += [f"{out} is added to" for out in row.accumulates.split()]
    if row.workspace:
        parts.append(f"workspace: {row.workspace}")
    return "; ".join(parts) + "."


def _prototype(op: Op) -> Iterator[str]:
    """The C prototype of the op's `_run`, from the types of the bindings; nothing without a library."""
    from baracuda._library.loader import default_library, symbol_name

    try:
        library = default_library()
        kind = library.ffi.typeof(library.function(op.name))
    except BaracudaError:  # there is no library, or it was built without this op
        return
    # cffi's types have no const
    params = [("const " * (param.direction in ("in", "in?", "ins", "host")), param.name) for param in op.row.params]
    tail = ("stream",) if op.row.is_bare else ("workspace", "workspace_bytes", "stream")
    params += [("", name) for name in tail]
    types = [of.cname.replace(" * *", "* const*").replace(" *", "*") for of in kind.args]
    arguments = ", ".join(f"{const}{of} {name}".replace(" ", "\0") for of, (const, name) in zip(types, params))
    lines = textwrap.wrap(f"{kind.result.cname}\0{symbol_name(op.name)}({arguments});", _WIDTH - 6)
    for number, line in enumerate(lines):
        yield ("      " if number else "  ") + line.replace("\0", " ")

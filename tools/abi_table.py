# SPDX-License-Identifier: Apache-2.0
"""Reads the op tables of native/<family>/ and of its subfolders.

A table is an INI file. A section describes symbols that differ only in dtypes and in the applied function: one row, or
two of a pointwise op, which has a form for contiguous and one for strided operands. The section's name is the template
of the symbols' names; text behind a space distinguishes rows with one template. Row names are unique over all tables. A
template that ends with _v2 is of the symbols <op>_run_v2, <op>_can_implement_v2 and so on.

Symbols:

F              functions, one per line: `elu(p0=1)  formula => gradient`; default parameters and gradient are optional.
               A gradient that begins with `saves y:` reads the output y, with `saves nothing:` only dy; all others read
               the input. A line `power.h:` names the header in the family's functors/ that has the classes of the
               functions below it
gradients_of   a row of this table, or `table.abi row` of one beside it: this row has the gradients of its
               functions, and the functions of F
T, U, I, O     dtypes of the slots; in a name `{T}` and `{U}` stand for the dtype, `{I}` for "", "_i64idx" or "_u8idx",
               and `{O}`, the dtype of offsets next to indices, for "" or "_i64off"
like           a row of the same table from which this section inherits missing keys

Parameters, by one of:

pointwise      operands and parameters of a pointwise op, in C's order: `in a, in i32 b, out? y, f64 p0 = 1`. An operand
               has dtype T by default, and `out?` may be NULL; a parameter may have a default, for bindings with
               default arguments. The flat form takes `i64 numel` before them; the derived strided form, `_strided`,
               takes numel, rank, shape and the strides of each operand
strided        the operands and parameters of the strided form, if its order differs or there is no flat form
params         parameters of other ops, one per line: a scalar `i64 numel`, a host array `host i32 shape[rank]`, or a
               device array `in|in?|out|out?|inout|inout? dtype name[extents]`; "?": it may be NULL. An extent is the
               name of a scalar or of a member function of the class; `[rows by row_stride, columns]` has rows with this
               pitch, over one axis or two. The role of a scalar (ROLES) precedes it, `axis i32 split_dim`, if it does
               not follow from name and dtype.
               `in i64* start[1]` is a pointer of its dtype in C, where others are void*.
               A list `ins|outs|outs? dtype name[n of extents]` is a host array of pointers to n operands; "?" means
               that each may be NULL. The class has the array, and `locate_<name>(..., k)` locates entry k
               (core/abi/operand_list.h). Strides of all entries are one array, `host i64 stride_<name>[n, rank]`
               A scalar of dtype `T.bits` has T's bit pattern (uint16_t for f16), one of `T.compute` is float for the
               16-bit floats and T otherwise; `T.complex` is c32 of f32, c64 of f64, `T.real` f32 of c32, f64 of c64.
               An array of `T.address` has i64, addresses of arrays of T
               An array whose shape has words, `shape with n along axis` or `shape at strides`, is located by the op's
               `locate_<name>`. The layout of an array `a` with a pitch `i64 lda` is given by the class's `stored_a()`
               (core/abi/stored_matrices.h)
tail           stream: the stream follows the operands directly; by default a workspace and its size precede it
can_implement  names of its parameters, if they are not all of the flat form's; `d*` is an output d that it
               takes as void*, and `f32:scale` a scalar that it takes as another dtype
workspace_size names of its parameters, if they are not all scalars; the class's check_extents() checks these only
workspace_bytes  C type of a byte count, for a row whose `_workspace_size` has the alias `_workspace_bytes`

Implementation; `{T}`, `{U}`, `{I}`, `{O}` are dtypes and `{F}` is the class of a function, GeluTanh for gelu_tanh:

functor        functor of a regular pointwise op, whose entry points follow from the row: by default bk::op::{F}<{T}>,
               and bk::op::{F}Backward<{T}> for a gradient. It takes the inputs in the order of `pointwise`
               (core/pointwise/pointwise_op.h)
template       class of any other op, whose members are the parameters (core/abi/entry.h). The class of a derived
               strided form has the suffix "Strided"
include        headers, relative to native/, that define functor or class. Regular ops with the same last header share
               a translation unit
units          "T": a translation unit per width of T, if one would take too long to compile; "T of table",
               or "of table" if that has one unit: the units of another table of the family, whose kernels the row calls

Guarantees:

sums           yes: outputs of the strided form are gradients, summed over the axes along which their stride is 0
reads          the inputs that each output depends on, if not all, one line per function: `mul  da: b, db: a`; without
               the function in a row without F. An input that no wanted output reads may be NULL, except the first
               one, which need not be listed
workspace      the purpose of the workspace; a row with this key, or with `sums`, has `_workspace_size`. A row with a
               `tail` takes none, and has `none: ` and the meaning of the size. `needed: ` and the problems that need
               one: their size is not 0, and NULL is status 4; other rows take NULL, of any problem
deterministic  no, or "workspace" (only with one); by default yes
batch_invariant  whether the bits of a result row depend on that row's inputs alone: no, or "preference" (only if a mode
               asks for it); by default yes
in_place       the inputs, of equal layout and element size, that an output may be, `y: cond a b`; or no: none. By
               default they are the inputs with its extents (a loss's results are as many as its elements) and its
               dtype, which may differ for a pointwise op. Any other overlap is status 2
accumulates    the outputs that the op adds to; others are overwritten
leaves         outputs with elements that are not written, one per line: `out`, for bad indices, or `out behind
               counter`, for rows from the count in counter on. A function on arrays clears such an output, or trims it
               if it can read counter
points         the arrays of T at the addresses in an operand of dtype `T.address`, one per line: `d_pointers: out d`
indexes        the operands that are indices, with their range, one per line: `ids < num_segments sorted`, `offsets <= n
               sorted`, `indices < rows or padding`, `target < classes or -100`, `start <= whole - part`, or `start <=
               whole - part along axis`, of host arrays and a scalar. Kernels take any values, as `doc` says; the
               checking mode refuses others
call           functions on arrays, one per line, for rows of families whose functions do not follow from the
               parameters: `name(array, number, array = None, *, number = default) -> result, result`. `c as name`
               renames C's parameter, and `c is value` fixes it to a number or another parameter. An argument that is no
               parameter is an array of which only the shape counts, with its extents in brackets if they have names, or
               a scalar of the layout (baracuda/_functions). Without `->` the results are all outputs. axis and diagonal
               may be positional behind required arrays, despite `*`, as in NumPy and PyTorch. A name alone stands for
               the signature in another row. If several rows have signatures of one function, one has all arguments; the
               others serve calls with fewer
gradient       the gradient of the function of `call` with respect to its first array, if it is another function:
               `name(dy, number, number = -number, number = inverse number)`, with the same scalars, negated ones, or
               the inverse of a permutation of axes
about          description of the function on arrays, if `doc` speaks of C's arguments: the first line says what it
               computes, with `{f}` for the formula in F; details follow below
doc            one paragraph for the header and the op list; that of a derived strided form is generated

A section with `function` is no row but C functions of other shapes, one for each choice of dtypes. Its name is that of
the functions, whole if it begins with baracuda_:

function       result and parameters of the C function, `size_t (int32_t batch, int32_t heads)`
F              names that {F} stands for, separated by spaces
template       the function of namespace bk that it calls with the same arguments. It returns a bk::Status, or a number,
               where C's result is int32_t
include, doc   as in a row; the functions are in the translation unit of the first row of the table, or if there is
               none in one of the table's name
"""

import ast
import configparser
import dataclasses
import pathlib
import re
from collections.abc import Sequence

from abi_row import (
    C_TYPES,
    ROLES,
    SLOTS,
    SUFFIXES,
    Call,
    Param,
    Row,
    TableError,
    TypedParam,
    parse_number,
    with_roles,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIGNATURES = ("pointwise", "strided", "params")
CLASSES = ("functor", "template")
KEYS = {
    "F", "gradients_of", "like", *SIGNATURES, "tail", "can_implement", "workspace_size", "workspace_bytes", *CLASSES,
    "include", "units", "sums", "reads", "workspace", "deterministic", "batch_invariant", "in_place", "accumulates",
    "leaves", "points", "indexes", "call", "gradient", "about", "doc",
}  # fmt: skip
OWN = {"workspace", "can_implement", "like", "call", "gradient", "about"}  # keys that `like` does not inherit
MOST_OPERANDS = 8  # kMaxStridedOperands of core/abi/strided_args.h
POINTWISE_HEADER = "core/pointwise/pointwise_op.h"
SUMS_HEADER = "core/reduce/pointwise_sum_op.h"
SUMS_WORKSPACE = "partial sums over broadcast axes; with NULL sums are not split, and long ones are slow"
SUMS = (
    ". A gradient with a stride of 0 is summed over that axis, in f32 (f64 for f64) and in a fixed order; it must not "
    "be an input."
)


def parse_param(text: str) -> Param:
    before = rf"(?:({'|'.join(ROLES)}) )?(?:(host|ins|outs\??|inout\??|in\??|out\??) )?"
    m = re.fullmatch(rf"{before}([\w.]+)(\*?) (\w+)(?:\[(.*)\])?(?: = (\S+))?", text)
    if not m:
        raise TableError(f"parameter {text!r} is not '[role] [direction] dtype name[shape] [= default]'")
    role, direction, dtype, typed, name, shape, default = m.groups(default="")
    if bool(direction) != bool(shape):
        raise TableError(f"parameter {text!r}: an array has a direction and a shape, a scalar neither")
    if direction and default:
        raise TableError(f"parameter {text!r}: an array has no default")
    number = parse_number(default, dtype) if default else None
    return (TypedParam if typed else Param)(name, dtype, direction, shape, role, "", number)


def parse_signature(before: str, text: str, extents: str) -> tuple[Param, ...]:
    """Parameters of one form of a pointwise op: those before the operands' list, and the list."""
    given = [item for item in before.split(",") if item]
    for item in (" ".join(part.split()) for part in text.split(",")):
        m = re.fullmatch(r"(in|out\??|inout) (?:([\w.]+) )?(\w+)", item)
        given.append(f"{m[1]} {m[2] or 'T'} {m[3]}[{extents}]" if m else item)
    params = tuple(parse_param(item) for item in given)
    operands = [p for p in params if p.is_pointer]
    if sorted(operands, key=lambda p: p.is_output) != operands:
        raise TableError("the inputs of a pointwise op stand before its outputs")
    if len(operands) > MOST_OPERANDS:
        raise TableError(f"a pointwise op has at most {MOST_OPERANDS} operands")
    return params


def flat_params(text: str) -> tuple[Param, ...]:
    return parse_signature("i64 numel", text, "numel")


def strided_params(text: str) -> tuple[Param, ...]:
    strides = "".join(f",host i64 stride_{p.name}[rank]" for p in flat_params(text) if p.is_pointer)
    return parse_signature(f"i64 numel,i32 rank,host i32 shape[rank]{strides}", text, "shape")


@dataclasses.dataclass
class Functions:
    """Parses `F` or `gradients_of`, function by function."""

    docs: dict[str, str] = dataclasses.field(default_factory=dict)
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    defaults: dict[str, dict[str, float | int]] = dataclasses.field(default_factory=dict)
    saves: dict[str, str] = dataclasses.field(default_factory=dict)  # for gradients: x, y or nothing


def parse_functions(text: str, params: tuple[Param, ...], *, gradients: bool = False) -> Functions:
    functions, header, seen = Functions(), "", set()
    scalars = {p.name: p.dtype for p in params if p.role == "parameter"}
    for line in filter(None, map(str.strip, text.splitlines())):
        if re.fullmatch(r"\w+\.h:", line):
            header = line.removesuffix(":")
            continue
        name, given, doc, gradient = re.match(r"(\w*)(?:\(([^)]*)\))? *((?:(?!=>).)*)(?:=> *(.*))?", line).groups(
            default=""
        )
        if not doc.strip() or ("=>" in line and not gradient):
            raise TableError(f"function {name!r} has no description")
        if name in seen:
            raise TableError(f"function {name!r} stands here twice")
        seen.add(name)
        pairs = [pair.strip().partition("=") for pair in given.split(",") if given]
        if unknown := [parameter for parameter, _, _ in pairs if parameter not in scalars]:
            raise TableError(f"function {name!r}: {unknown[0]!r} is no parameter of the row")
        if gradients and not gradient:
            continue
        if gradients:
            saves, doc = re.fullmatch(r"(?:saves (y|nothing): *)?(.*)", gradient).groups(default="x")
            functions.saves[name] = saves
            doc += ", saved = y" * (saves == "y")
        functions.docs[name] = doc.strip()
        functions.headers |= {name: header} if header else {}
        functions.defaults[name] = {key: parse_number(value, scalars[key]) for key, _, value in pairs}
    return functions


def is_alike(p: Param, out: Param, *, pointwise: bool) -> bool:
    """Whether an output may be this input by default."""
    extents = (p.shape, out.shape)
    return (pointwise or p.dtype == out.dtype) and (p.shape == out.shape or extents == ("results", "numel"))


def parse_in_place(text: str, params: tuple[Param, ...], *, pointwise: bool = False) -> dict[str, tuple[str, ...]]:
    """Output -> inputs that it may be."""
    inputs = [p for p in params if p.direction in ("in", "in?")]
    outputs = [p for p in params if p.is_output and p.is_pointer]
    if text == "no":
        return {out.name: () for out in outputs}
    if not text:
        return {out.name: tuple(p.name for p in inputs if is_alike(p, out, pointwise=pointwise)) for out in outputs}
    pairs = [entry.partition(":") for entry in text.split(",")]
    given = {out.strip(): tuple(names.split()) for out, _, names in pairs}
    if unknown := set(given) - {p.name for p in outputs}:
        raise TableError(f"in_place: {sorted(unknown)[0]!r} is no output")
    if unknown := {name for names in given.values() for name in names} - {p.name for p in inputs}:
        raise TableError(f"in_place: {sorted(unknown)[0]!r} is no input")
    return {out.name: given.get(out.name, ()) for out in outputs}


def parse_leaves(text: str, params: Sequence[Param]) -> dict[str, str]:
    """Output -> the output that counts its written rows, or ''."""
    outputs = {p.name for p in params if p.direction in ("out", "out?")}
    found = {}
    for line in filter(None, text.split("\n")):
        output, _, counter = line.strip().partition(" behind ")
        if stray := {output, counter or output} - outputs:
            raise TableError(f"leaves: {min(stray)!r} is no `out` parameter")
        found[output] = counter
    return found


def parse_reads(text: str, functions: dict[str, str], params: tuple[Param, ...]) -> dict[str, dict[str, tuple]]:
    inputs = {p.name for p in params if p.is_pointer and not p.is_output}
    outputs = {p.name for p in params if p.is_output}
    reads = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        function, _, rest = line.partition(" ") if functions else ("", "", line)
        if functions and function not in functions:
            raise TableError(f"reads: {function!r} is no function of the row")
        pairs = [entry.partition(":") for entry in rest.split(",")]
        reads[function] = {output.strip(): tuple(read.split()) for output, _, read in pairs}
        if set(reads[function]) != outputs:
            raise TableError(f"reads: {line!r} must name every output once: {' '.join(sorted(outputs))}")
        if unknown := {name for read in reads[function].values() for name in read} - inputs:
            raise TableError(f"reads: {sorted(unknown)[0]!r} is no input")
    return reads


def parse_points(text: str, params: tuple[Param, ...]) -> dict[str, tuple[str, str]]:
    """Operand of addresses -> (direction, name) of the arrays there."""
    addresses = [p.name for p in params if p.dtype.endswith(".address")]
    lines = [line.split() for line in filter(None, map(str.strip, text.splitlines()))]
    points = {line[0].removesuffix(":"): tuple(line[1:]) for line in lines}
    if list(points) != addresses or any(len(to) != 2 or to[0] not in ("in", "out", "inout") for to in points.values()):
        raise TableError(f"points: {text!r} is not 'operand: in|out|inout name' of {' '.join(addresses) or 'none'}")
    return points


def parse_indexes(text: str, params: tuple[Param, ...]) -> dict[str, tuple[str, bool, bool, str]]:
    """Operand -> (extent, whether an index may equal it, whether sorted, other valid value: a parameter or number)."""
    scalars, arrays = ({p.name for p in params if p.direction == kind} for kind in ("", "host"))
    inputs = {p.name for p in params if p.direction in ("in", "in?")}
    indexes = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        m = re.fullmatch(r"(\w+) (<=?) (\w+|\w+ - \w+(?: along \w+)?)( sorted)?(?: or (\w+|-\d+))?", line)
        if not m:
            raise TableError(f"indexes: {line!r} is not 'operand < extent [sorted] [or parameter or number]'")
        name, relation, extent, is_sorted, other = m.groups(default="")
        if name not in inputs:
            raise TableError(f"indexes: {name!r} is no input")
        *parts, axis = re.findall(r"\b(?!along\b)\w+", extent)
        numbers, parts = ([axis], parts) if "along" in extent.split() else ([axis, *parts], [])
        named = {*numbers, *([other] if other and not other.startswith("-") else [])}
        if unknown := (named - scalars) | (set(parts) - arrays):
            raise TableError(f"indexes: {sorted(unknown)[0]!r} is no number of the row")
        indexes[name] = (extent, relation == "<=", bool(is_sorted), other)
    return indexes


def parse_calls(text: str, params: tuple[Param, ...]) -> tuple[Call, ...]:
    return tuple(parse_call(line, params) for line in filter(None, map(str.strip, text.splitlines())))


def parse_call(line: str, params: tuple[Param, ...]) -> Call:
    m = re.fullmatch(r"([\w{}]+)(?:\((.*)\)(?: -> (.*))?)?", line)
    if not m:
        raise TableError(f"call: {line!r} is not 'name(arguments) -> results'")
    name, given, results = m.groups()
    if given is None:
        return Call(name, (), (), ())
    arguments, fixed, by_keyword = [], [], False
    known = {p.name for p in params}
    for item in filter(None, map(str.strip, re.split(r",(?![^\[]*\])", given))):
        m = re.fullmatch(r"(?:(\w+) as )?(\w+)(?:\[(.*)\])?(?: = (.*))?", item)
        constant = re.fullmatch(r"(\w+) is (\S+)", item)
        source = constant[1] if constant else (m[1] if m else "")
        if (not m and not constant and item != "*") or (source and source not in known):
            raise TableError(f"call: {item!r} is no argument, or of no parameter")
        if item == "*":
            by_keyword = True
        elif constant:
            fixed.append((constant[1], constant[2]))
        else:
            source, own, extents, default = m.groups()
            default = () if default is None else (ast.literal_eval(default),)
            arguments.append((own, source or (own if own in known else ""), extents or "", default, by_keyword))
    outputs = [p.name for p in params if p.is_output]
    named = (
        [item.strip().partition(" as ") for item in results.split(",")] if results else [(o, "", "") for o in outputs]
    )
    if unknown := [source for source, _, _ in named if source not in outputs]:
        raise TableError(f"call: {unknown[0]!r} is no output")
    return Call(name, tuple(arguments), tuple(fixed), tuple((own or source, source) for source, _, own in named))


def parse_gradient(text: str, calls: tuple[Call, ...]) -> tuple[str, tuple[tuple[str, str, str], ...]] | tuple[()]:
    """(function, its scalars, each derived from a scalar by "" (equal), "-" or "inverse")"""
    if not text:
        return ()
    m = re.fullmatch(r"(\w+)\(dy((?:, [^,]+)*)\)", text)
    if not m:
        raise TableError(f"gradient: {text!r} is not 'name(dy, number, number = -number)'")
    known = {argument[0] for call in calls for argument in call.arguments}
    found = []
    for item in filter(None, m[2].split(", ")):
        n = re.fullmatch(r"(\w+)(?: = (-|inverse )?(\w+))?", item)
        if not n or (n[3] or n[1]) not in known:
            raise TableError(f"gradient: {item!r} is no number of the function")
        found.append((n[1], (n[2] or "").strip(), n[3] or n[1]))
    return m[1], tuple(found)


def listed(names: Sequence[str], last: str) -> str:
    """Lists words: "a, b or c"."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def described(
    pattern: str, params: tuple[Param, ...], in_place: dict[str, tuple[str, ...]], *, sums: bool, reordered: bool
) -> str:
    """The `doc` of a derived strided form."""
    text = f"{pattern.removesuffix('_{T}')} on strided operands"
    if sums:
        text += SUMS + " A gradient may be NULL." * any(p.direction == "out?" for p in params)
    else:
        text += "; a stride of 0 broadcasts an input." if any(p.direction == "in" for p in params) else "."
        dtypes = {p.name: p.dtype for p in params}
        for out, ins in in_place.items():
            alike = "" if all(dtypes[name] == dtypes[out] for name in ins) else " and elements of one size"
            text += f" {out} may be {listed(ins, 'or')}, of equal strides{alike}." if ins else ""
    operands = [p.name for p in params if p.is_pointer]
    return text + f" Its operands are {listed(operands, 'and')}, in this order." * reordered


class Section:
    """One section of a table, with inherited keys."""

    def __init__(self, path: pathlib.Path, family: str, name: str, section: dict[str, str]) -> None:
        self.path, self.family, self.name, self.section = path, family, name, section
        self.slots = {key: tuple(section[key].split()) for key in section if key in SLOTS}
        if unknown := set(section) - KEYS - set(self.slots):
            raise TableError(f"unknown key {sorted(unknown)[0]!r}")
        for slot, dtypes in self.slots.items():
            if bad := set(dtypes) - set(SUFFIXES.get(slot, C_TYPES)):
                raise TableError(f"slot {slot}: unknown dtype {sorted(bad)[0]!r}")
        if not set(SIGNATURES) & set(section):
            raise TableError(f"one of the keys {', '.join(SIGNATURES)} is missing")
        if section.get("deterministic", "yes") not in ("yes", "no", "workspace"):
            raise TableError("deterministic is yes, no or workspace")
        if section.get("batch_invariant", "yes") not in ("yes", "no", "preference"):
            raise TableError("batch_invariant is yes, no or preference")
        units = re.fullmatch(r"T|(?:T )?of (\w+)", section.get("units", "T"))
        if not units or (section.get("units", "").startswith("T") and "T" not in self.slots):
            raise TableError("units is T, a slot of the row, or T of a table, or of a table")
        self.unit_table = units[1] or path.stem
        if "workspace_bytes" in section and "workspace" not in section:
            raise TableError("workspace_bytes is of a row with a workspace")
        if section.get("sums", "yes") != "yes":
            raise TableError("sums is yes, or not there")
        takes_workspace = not section.get("workspace", "none:").startswith("none:")
        if section.get("tail", "stream") != "stream" or ("tail" in section and takes_workspace):
            raise TableError("tail is stream, of a row without a workspace")

    def rows(self) -> list[Row]:
        section = self.section
        if "params" in section:
            lines = section["params"].strip().splitlines()
            return [self.row("", tuple(parse_param(" ".join(line.split())) for line in lines))]
        forms = [self.row("flat", flat_params(section["pointwise"]))] if "pointwise" in section else []
        return [*forms, self.row("strided", strided_params(section.get("strided", section.get("pointwise"))))]

    def functions(self, params: tuple[Param, ...]) -> Functions:
        own = parse_functions(self.section.get("F", ""), params)
        if "gradients_of" not in self.section:
            return own
        table, _, row = self.section["gradients_of"].rpartition(".abi ")
        sections = read_sections(self.path.with_name(f"{table}.abi") if table else self.path)
        if "F" not in sections.get(row, ()):
            raise TableError(f"gradients_of: there is no row {row!r} that has functions")
        functions = parse_functions(sections[row]["F"], params, gradients=True)
        for field in ("docs", "headers", "defaults"):
            getattr(functions, field).update(getattr(own, field))
        functions.saves |= dict.fromkeys(own.docs, "x")
        if not any(p.name == "saved" for p in params) and "y" in functions.saves.values():
            function = next(name for name, saves in functions.saves.items() if saves == "y")
            raise TableError(f"function {function!r} saves y, but there is no operand `saved`")
        return functions

    def params_of(self, params: tuple[Param, ...]) -> tuple[Param, ...]:
        for p in params:
            forms = "bits|compute|complex|real|address"
            if not re.fullmatch(rf"{'|'.join(C_TYPES)}|({'|'.join(self.slots)})(\.({forms}))?", p.dtype):
                raise TableError(f"parameter {p.name}: unknown dtype {p.dtype!r}")
        return with_roles(params)

    def functor(self, functions: Functions) -> str:
        if "functor" not in self.section and not functions.docs:
            raise TableError("functor or template is missing, which a row without F needs")
        stray = [name for name in functions.docs if name not in functions.headers]
        if stray and "include" not in self.section:
            raise TableError(f"function {stray[0]!r} stands below no header, and there is no `include`")
        of_gradient = "Backward" * ("_backward" in self.name)
        return self.section.get("functor", f"bk::op::{{F}}{of_gradient}<{{T}}>")

    def row(self, form: str, params: tuple[Param, ...]) -> Row:
        section, pattern = self.section, self.name.split()[0]
        follows = form == "strided" and "pointwise" in section  # derived from the flat form
        params = self.params_of(params)
        by_name = {p.name: p for p in params}
        named = section.get("can_implement", "").split() if not follows else []
        taken = [name.removesuffix("*").rpartition(":") for name in named]
        chosen = [name for _, _, name in taken]
        mutable = frozenset(name for name in chosen if f"{name}*" in named)
        if missing := [n for n in chosen if n not in by_name]:
            raise TableError(f"can_implement: {missing[0]!r} is no parameter")
        checked = tuple(by_name[name]._replace(dtype=dtype or by_name[name].dtype) for dtype, _, name in taken)
        sized = section.get("workspace_size", "").split() or [p.name for p in params if not p.is_pointer]
        accumulates = section.get("accumulates", "")
        for name in accumulates.split():
            if getattr(by_name.get(name), "direction", "") != "inout":
                raise TableError(f"accumulates: {name!r} is no `inout` parameter")
        leaves = parse_leaves(section.get("leaves", ""), params)

        functions = self.functions(params)
        sums = "sums" in section and form == "strided"
        regular, includes = bool(form) and "template" not in section, tuple(section.get("include", "").split())
        if regular:
            template, includes = self.functor(functions), (SUMS_HEADER if sums else POINTWISE_HEADER, *includes)
        else:
            template = re.sub(r"^\w+", r"\g<0>Strided", section["template"]) if follows else section["template"]

        nothing = {p.name: () for p in params if p.is_output}
        reads = parse_reads(section.get("reads", ""), functions.docs, params)
        reads |= {function: nothing for function, saves in functions.saves.items() if saves == "nothing"}
        saves = {name: "y" if saves == "y" else "x" for name, saves in functions.saves.items() if "saved" in by_name}
        of_all = {p.name: p.default for p in params if p.default is not None}
        in_place = parse_in_place(section.get("in_place", ""), params, pointwise=regular)
        order = inputs = tuple(p.name for p in params if p.direction in ("in", "inout"))
        doc = " ".join(section["doc"].split())
        if follows:
            inputs = tuple(p.name for p in flat_params(section["pointwise"]) if p.name in order)
            doc = described(pattern, params, in_place, sums=sums, reordered=inputs != order)
        return Row(
            family=self.family, table=self.path.stem,
            name=self.name.replace(pattern, f"{pattern}_strided", 1) if follows else self.name,
            template=template, form=form if regular else "", inputs=inputs, sums=sums, includes=includes,
            functions=functions.docs, headers=functions.headers, by_width=section.get("units", "").startswith("T"),
            unit_table=self.unit_table, slots=self.slots,
            params=params, check_params=checked or params,
            mutable_checks=mutable,
            size_params=tuple(by_name[n] for n in sized), reads=reads, saves=saves,
            defaults={name: of_all | functions.defaults.get(name, {}) for name in functions.docs or ("",)},
            workspace=SUMS_WORKSPACE if sums else "" if follows else section.get("workspace", ""),
            deterministic=section.get("deterministic", "yes"),
            batch_invariant=section.get("batch_invariant", "yes"), is_apart=section.get("in_place") == "no",
            in_place=in_place, accumulates=accumulates, leaves=leaves, doc=doc,
            is_bare="tail" in section,
            bytes_type=section.get("workspace_bytes", ""),
            points=parse_points(section.get("points", ""), params),
            indexes=parse_indexes(section.get("indexes", ""), params),
            calls=(calls := parse_calls(section.get("call", ""), params)),
            gradient=parse_gradient(section.get("gradient", ""), calls), about=section.get("about", "").strip(),
        )  # fmt: skip


def merged(section: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    """A section with inherited keys: none of a group of exclusive keys if the section has one of them."""
    inherited = {key: value for key, value in base.items() if key not in OWN}
    for group in (SIGNATURES, CLASSES, ("F", "gradients_of")):
        if set(group) & set(section):
            inherited = {key: value for key, value in inherited.items() if key not in group}
    return inherited | section


def read_sections(path: pathlib.Path) -> dict[str, dict[str, str]]:
    """The sections of a table, without inheritance."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), empty_lines_in_values=False)
    parser.optionxform = str  # slots are upper case
    try:
        parser.read_string(path.read_text(), source=path.name)
    except (configparser.Error, OSError) as error:
        raise TableError(str(error)) from None
    return {name: dict(parser[name]) for name in parser.sections()}


def read_table(path: pathlib.Path, family: str) -> list[Row]:
    sections = read_sections(path)
    rows = []
    for name, section in sections.items():
        if "function" in section:
            continue
        try:
            if "like" in section:
                section = merged(section, sections[section["like"]])
            rows += Section(path, family, name, section).rows()
        except (TableError, KeyError) as error:
            what = f"key {error} is missing" if isinstance(error, KeyError) else error
            raise TableError(f"{path.name} [{name}]: {what}") from None
    return rows


def table_paths() -> dict[tuple[str, str], pathlib.Path]:
    """The tables by family and name, in the order of the header: those in a folder of native/ and in its subfolders."""
    found: dict[tuple[str, str], pathlib.Path] = {}
    for folder in sorted(path for path in (ROOT / "native").iterdir() if path.is_dir()):
        for path in sorted((*folder.glob("*.abi"), *folder.glob("*/*.abi")), key=lambda path: path.name):
            if found.setdefault((folder.name, path.stem), path) != path:
                raise TableError(f"{path.name} is twice in native/{folder.name}")
    return found


def read_all() -> list[Row]:
    rows = [row for (family, _), path in table_paths().items() for row in read_table(path, family)]
    names: dict[str, Row] = {}
    seen: dict[str, Row] = {}
    for row in rows:
        if row.name in names:
            raise TableError(f"[{row.name}] is in both {names[row.name].table}.abi and {row.table}.abi")
        names[row.name] = row
        for op, _ in row.instances():
            if op in seen:
                raise TableError(f"{op} comes from both [{seen[op].name}] and [{row.name}]")
            seen[op] = row
    return rows

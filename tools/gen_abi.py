#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the public header, the glue and the Python op list from the op tables.

usage: gen_abi.py header [--check] | glue DIR [--dtypes LIST] | part DIR [--families LIST] [--dtypes LIST] | oplist FILE

header   include/baracuda_kernels.h; --check only compares the file with what would be written
glue     DIR/<family>.<table>....cu, one translation unit each
part     the contents of a library: DIR/units.txt lists its translation units, DIR/symbols.inc its functions,
         DIR/part.inc the restriction that build_info shows, and DIR/abi_hash.inc the hash of the whole ABI
oplist   FILE, the Python module with the table for the package

A library may be partial. --dtypes "f32 bf16" restricts {T} and {U}; with "others" a row that has none of these keeps
the first of its own. --families chooses translation units, by family (segment), table (elementwise.gated), or full name
(elementwise.unary.special).

Unchanged files are not rewritten, so that make rebuilds nothing for them.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import re
import sys
import textwrap
from collections.abc import Sequence

from abi_functions import Function, read_functions
from abi_limits import limits_of
from abi_row import C_TYPES, PREFIX, Param, Row, TableError
from abi_table import ROOT, listed, read_all, read_sections, table_paths

HEADER = ROOT / "include" / "baracuda_kernels.h"
OTHERS = "others"  # pseudo dtype: the first dtype of a row that has none of the chosen ones
PROLOGUE = ROOT / "native" / "core" / "abi" / "prologue.h"
NOTICE = "Written by tools/gen_abi.py: do not edit."
EPILOGUE = """
#ifdef __cplusplus
}
#endif

#endif /* BARACUDA_KERNELS_H */
"""


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# --- header ----------------------------------------------------------------------------------------------------------


def comment(lines: list[str]) -> str:
    body = "\n".join(f" * {line}".rstrip() for line in lines)
    return f"/*\n{body}\n */\n"


def describe(row: Row) -> list[str]:
    """The comment above a row's prototypes: `doc`, then each argument's dtype and shape."""
    choices = ", ".join(f"{slot}: {' '.join(dtypes)}" for slot, dtypes in row.slots.items())
    lines = [f"{row.pattern}  ({choices})", *textwrap.wrap(row.doc, 112)]
    width = max(map(len, row.functions), default=0)
    for name, doc in row.functions.items():
        lines += textwrap.wrap(doc, 112, initial_indent=f"  {name:{width}s}  ", subsequent_indent=" " * (width + 4))
    for p in row.params:
        if p.direction:
            nullable = ", may be NULL" if p.direction.endswith("?") else ""
            nullable = nullable.replace("may", "each may") if p.is_list else nullable
            nullable += f", may be {listed(row.in_place[p.name], 'or')}" if row.in_place.get(p.name) else ""
            lines.append(f"  {p.direction.rstrip('?'):5s} {p.name}: {p.dtype} [{p.shape}]{nullable}")
            if p.is_addresses:
                lines[-1] += ", i64 addresses of each {1} ({0})".format(*row.points[p.name])
    lines += describe_reads(row)
    if limits := "; ".join(f"{name} is {text}" for name, text in limits_of(row).items()):
        lines += textwrap.wrap(f"limits: {limits}", 112, initial_indent="  ", subsequent_indent="    ")
    if row.workspace:
        lines.append(f"  workspace {row.workspace}")
    guarantee = {"yes": "deterministic", "no": "not deterministic", "workspace": "deterministic with a workspace only"}
    invariance = {"yes": "", "no": "; not batch-invariant", "preference": "; batch-invariant if asked for"}
    lines.append(f"  {guarantee[row.deterministic]}{invariance[row.batch_invariant]}")
    return lines


def describe_reads(row: Row) -> list[str]:
    """Sentence on inputs that may be NULL if certain outputs are."""
    each = [
        " ".join(filter(None, [function, ", ".join(f"{out}: {' '.join(ins) or '-'}" for out, ins in reads.items())]))
        for function, reads in row.reads.items()
    ]
    if not each:
        return []
    others = "" if len(each) == max(1, len(row.functions)) else "; all by the others"
    text = (
        f"An input but {row.first_input.name} may be NULL where no wanted output reads it. These read: "
        f"{'; '.join(each)}{others}."
    )
    return textwrap.wrap(text, 112, initial_indent="  ", subsequent_indent="  ")


def describe_functions(family: str) -> str:
    """The comments and prototypes of a family's functions that are no ops."""
    parts = []
    for function in read_functions():
        if function.family != family:
            continue
        parts.append("\n" + comment([function.pattern, *textwrap.wrap(function.doc, 112)]))
        parts += [f"BARACUDA_API {function.result} {name}({function.params});\n" for name, _, _ in function.instances()]
    return "".join(parts)


def header_text(rows: list[Row]) -> str:
    parts = [PROLOGUE.read_text()]
    for family in sorted({row.family for row in rows} | {function.family for function in read_functions()}):
        parts.append(f"\n/* ---- {family} {'-' * (106 - len(family))} */\n")
        for row in (row for row in rows if row.family == family):
            parts.append("\n" + comment(describe(row)))
            for op, slots in row.instances():
                for result, name, params in row.prototypes(op, slots):
                    parts.append(f"BARACUDA_API {result} {name}({params});\n")
        parts.append(describe_functions(family))
    return "".join(parts) + EPILOGUE


def prototypes_of(header: str) -> list[tuple[str, str]]:
    """(name, whole prototype) of every exported function, in order."""
    return re.findall(r"^BARACUDA_API (?:[^;(]*?)(\w+)(\([^;]*\));", header, flags=re.M)


def abi_hash(header: str) -> str:
    text = "\n".join(sorted(name + params for name, params in prototypes_of(header)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- glue ------------------------------------------------------------------------------------------------------------


def glue_operand(row: Row, p: Param, slots: dict[str, str]) -> str:
    """Code that locates one operand of the problem `op`: by the op if the shape says "with" or "at"; else strided if
    the row has its strides, or row-major."""
    names = {q.name: f"op.{q.name}" for q in row.problem}

    def value(expression: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], f"op.{m[0]}()"), expression)

    about = f'at++, "{p.name}", {role_of(p)}, bk::size_of<{p.element(slots)}>()'
    if pitch := next((q.name for q in row.problem if q.role == "pitch" and q.of == p.name), ""):
        return f'BK_TRY(bk::locate_matrices({about}, "{pitch}", op.stored_{p.name}()));'
    if re.search(" (with|at) ", p.shape):
        return f"BK_TRY(op.locate_{p.name}({about}));"
    strides = f"stride_{p.name}"
    if strides in names:
        # "shape", "shape * repeats", or a shape with a member function of the op
        shape, _, repeats = p.shape.split(",")[0].partition(" * ")
        factor = value(repeats) if repeats else "nullptr"
        return f'BK_TRY(bk::locate_strided({about}, "{strides}", op.rank, {value(shape)}, {value(strides)}, {factor}));'
    if " by " in p.shape:
        given = ", ".join(f'{{"{e}", {value(e)}}}' for e in re.split(" by |, ", p.shape))
        return f"BK_TRY(bk::locate_rows({about}, {given}));"
    extents = ", ".join(f'{{"{e}", {value(e)}}}' for e in p.shape.split(", "))
    return f"BK_TRY(bk::locate_dense({about}, {{{extents}}}));"


def glue_struct(op: str, row: Row, slots: dict[str, str]) -> str:
    """The functions of an instance with an op struct; fields and pointer types are checked against the row."""
    problem, pointers = row.problem, row.pointers
    (_, run, run_params), (_, check, check_params), *sized = row.prototypes(op, slots)
    ns = f"op_{op}"
    out = [f"namespace {ns} {{", f"using Op = bk::{row.class_of(slots)};"]
    for p in problem:
        field = f"decltype(Op::{p.name}), {p.field_type(slots)}"
        out.append(f'static_assert(std::is_same<{field}>::value, "{op}: {p.name}");')
    bindings = ", ".join(f"field{i}" for i in range(len(problem)))
    out.append("[[maybe_unused]] void has_no_other_field(const Op& op) {")
    out.append(f"    [[maybe_unused]] auto& [{bindings}] = op;\n}}")
    types = "".join(f"{p.pointer_type(slots)}, " for p in pointers)
    out.append(f"constexpr bk::Status (Op::*kRun)({types}const bk::Launch&) const = &Op::run;")
    out.append(f"using Operands = bk::Operand[{len(pointers)}];")
    out.append("BK_COLD bk::Status check(const Op& op, bk::Operand* at) {\n    BK_TRY(op.check());")
    out += [f"    {glue_operand(row, p, slots)}" for p in pointers]
    out += [
        f'    BK_TRY(bk::for_entries("{p.name}", op.{p.length}, [&](const char* name, int32_t k) {{\n'
        f"        bk::Operand entry;\n        return {glue_entry(p, slots)};\n    }}));"
        for p in row.lists
    ]
    out.append("    return bk::Status::kOk;\n}")
    out.append(f"}}  // namespace {ns}")

    def make(params) -> str:
        given = {p.name for p in params}
        return f"{ns}::Op op{{}}; " + " ".join(f"op.{p.name} = {p.name};" for p in problem if p.name in given)

    unused = " ".join(f"(void){p.name};" for p in row.check_params if p.is_pointer)
    has_arrays = all(p in row.check_params for p in problem if p.direction == "host")
    checked = f"{ns}::check(op, operands)" if has_arrays else "op.check_scalars()"
    out.append(
        f"BK_EXPORT int32_t {check}({check_params}) {{\n"
        f"    {unused} {make(row.check_params)}\n"
        + (f"    {ns}::Operands operands;\n" if has_arrays else "")
        + f'    return bk::leave("{op}", {checked});\n}}'
    )
    for result, size, size_params in sized:
        partial = row.size_params != problem
        checked = "op.check_extents()" if partial else f"{ns}::check(op, operands)"
        operands = "" if partial else f"    {ns}::Operands operands;\n"
        out.append(
            f"BK_EXPORT {result} {size}({size_params}) {{\n    {make(row.size_params)}\n{operands}"
            f'    return bk::workspace_size("{op}", op, {checked});\n}}'
        )
    # An input that no wanted output reads may be NULL; the first input, of the same extents, replaces it.
    fields, readers, stand_ins = {p.name for p in problem}, "", ""
    for k, p in enumerate(pointers):
        if mask := reader_mask(row, p, slots):
            first, readers = row.first_input.name, f"{readers} operands[{k}].readers = {mask};"
            both = {f"stride_{p.name}", f"stride_{first}"} <= fields
            stride = f", op.stride_{p.name} = op.stride_{first}" if both else ""
            stand_ins += f"    if ({p.name} == nullptr) {p.name} = {first}{stride};\n"
        if mask := in_place_mask(row, p):
            readers += f" operands[{k}].may_be = {mask};"
    listed = "".join(
        f"    if (status == bk::Status::kOk)\n"
        f'        status = bk::require_entries("{p.name}", op.{p.length}, op.{p.name}, operands, '
        f"operands + {len(pointers)}, op.work(),\n            [&](bk::Operand* at, const char* name, int32_t k) "
        f"{{ return {glue_entry(p, slots, at='at')}; }});\n"
        for p in row.lists
    )
    cast = [f"static_cast<{p.pointer_type(slots)}>({p.name})" for p in pointers]
    given = " ".join(f"operands[{k}].pointer = {p.name};" for k, p in enumerate(pointers))
    out.append(
        f"BK_EXPORT int32_t {run}({run_params}) {{\n"
        f"    {make(problem)}\n"
        f"    {ns}::Operands operands;\n"
        f"    bk::Status status = {ns}::check(op, operands);\n"
        f'    if (status != bk::Status::kOk || op.work() == bk::Work::kNone) return bk::leave("{op}", status);\n'
        f"    {given}{readers}\n"
        f"{listed}"
        f"    {'if (status == bk::Status::kOk) ' * bool(listed)}"
        f"status = bk::require_pointers(operands, operands + {len(pointers)}, op.work());\n"
        f"    const bk::Launch launch{{{'nullptr, 0' if row.is_bare else 'workspace, workspace_bytes'}, stream}};\n"
        f"{stand_ins}"
        f"    if (status == bk::Status::kOk) status = (op.*{ns}::kRun)({', '.join([*cast, 'launch'])});\n"
        f'    return bk::leave("{op}", status);\n}}'
    )
    return "\n".join(out) + "\n"


def glue_entry(p: Param, slots: dict[str, str], at: str = "&entry") -> str:
    """Code that locates an entry of a list."""
    return f"op.locate_{p.name}({at}, name, {role_of(p)}, bk::size_of<{p.element(slots)}>(), k)"


def reader_mask(row: Row, p: Param, slots: dict[str, str]) -> str:
    """Mask of the outputs that read an input which may be NULL without them; empty for other operands."""
    readers = row.needed(slots).get(p, ())
    if not p.is_required or readers is None:
        return ""
    return " | ".join(f"1u << {row.pointers.index(out)}" for out in readers) or "0"


def in_place_mask(row: Row, p: Param) -> str:
    """Mask of the inputs that an output may be; empty for other operands."""
    names = [q.name for q in row.pointers]
    return " | ".join(f"1u << {names.index(name)}" for name in row.in_place.get(p.name, ()))


def role_of(p: Param) -> str:
    roles = {"in": "kInput", "ins": "kInput", "in?": "kOptionalInput"}
    roles |= dict.fromkeys(("out?", "inout?", "outs?"), "kOptionalOutput")
    return f"bk::Role::{roles.get(p.direction, 'kOutput')}"


def glue_regular(op: str, row: Row, slots: dict[str, str]) -> str:
    """The functions of an instance of a regular pointwise op (core/pointwise/pointwise_op.h)."""
    pointers, ns, strided = row.pointers, f"op_{op}", row.form == "strided"
    (_, run, run_params), (_, check, check_params), *sized = row.prototypes(op, slots)
    out = [f"namespace {ns} {{", "constexpr bk::PointwiseOperand kOperands[] = {"]
    for p in pointers:
        readers, may_be = reader_mask(row, p, slots), in_place_mask(row, p)
        masks = f", {readers}" if readers else f", bk::Operand::kAnyReader, {may_be}" if may_be else ""
        size = f"bk::size_of<{p.element(slots)}>()"
        out.append(f'    {{"{p.name}", "stride_{p.name}", {role_of(p)}, {size}{masks}}},')
    inputs = sum(p.direction == "in" for p in pointers)
    flags = ", ".join(str(flag).lower() for flag in (strided, row.sums))
    out.append(f'}};\nconstexpr bk::PointwiseOp kOp{{"{op}", kOperands, {inputs}, {len(pointers) - inputs}, {flags}}};')
    by_name = {p.name: (k, p.element(slots)) for k, p in enumerate(pointers)}
    results = ", ".join("bk::OperandSlot<{1}, {0}>".format(*by_name[p.name]) for p in pointers if p.is_output)
    arguments = ", ".join("bk::OperandSlot<const {1}, {0}>".format(*by_name[name]) for name in row.inputs)
    out.append(
        f"using Out = bk::OperandSlots<{results}>;\nusing In = bk::OperandSlots<{arguments}>;\n}}  // namespace {ns}"
    )
    shape, strides = "0, nullptr, nullptr", ""
    if strided:
        shape = "rank, shape, strides"
        strides = f"    const int64_t* strides[] = {{{', '.join(f'stride_{p.name}' for p in pointers)}}};\n"
    out.append(
        f"BK_EXPORT int32_t {check}({check_params}) {{\n"
        f"    {' '.join(f'(void){p.name};' for p in row.check_params if p.role in ('operand', 'parameter'))}\n{strides}"
        f"    return bk::can_implement({ns}::kOp, {{numel, {shape}, nullptr}});\n}}"
    )
    if sized:
        ((_, size, size_params),) = sized
        unused = "".join(f"    (void){p.name};\n" for p in row.problem if p.role == "parameter")
        out.append(
            f"BK_EXPORT size_t {size}({size_params}) {{\n{unused}{strides}"
            f"    return bk::sums_workspace({ns}::kOp, {{numel, {shape}, nullptr}}, {ns}::Out{{}}, {ns}::In{{}});\n}}"
        )
    launcher = "sums" if row.sums else row.form
    parameters = "".join(f", {p.name}" for p in row.params if p.role == "parameter")
    out.append(
        f"BK_EXPORT int32_t {run}({run_params}) {{\n{strides}"
        f"    const void* pointers[] = {{{', '.join(p.name for p in pointers)}}};\n"
        f"    return bk::run_{launcher}<{row.class_of(slots)}>({ns}::kOp, {{numel, {shape}, pointers}},\n"
        f"        {{workspace, workspace_bytes, stream}}, {ns}::Out{{}}, {ns}::In{{}}{parameters});\n}}"
    )
    return "\n".join(out) + "\n"


def glue_row(op: str, row: Row, slots: dict[str, str]) -> str:
    return (glue_regular if row.form else glue_struct)(op, row, slots)


Instance = tuple[str, Row, dict[str, str]]


def tables_without_rows() -> dict[tuple[str, str], str]:
    """Units of the tables that have functions only, by family and table."""
    return {
        (family, table): f"{family}.{table}"
        for (family, table), path in table_paths().items()
        if (sections := read_sections(path)) and all("function" in section for section in sections.values())
    }


def is_named(unit: str, names: Sequence[str]) -> bool:
    """Whether FAMILIES chooses a unit, by its own name or one that begins it; none chooses all."""
    return not names or any(f"{unit}.".startswith(f"{name}.") for name in names)


def functions_in(
    instances: list[Instance], dtypes: Sequence[str], families: Sequence[str] = ()
) -> list[tuple[Function, str, str, str]]:
    """The functions of the tables and dtypes in a library, each with its C name, what it calls and its unit."""
    units = {key: unit for key, unit in tables_without_rows().items() if is_named(unit, families)}
    for _, row, slots in instances:
        units.setdefault((row.family, row.table), row.unit_of(slots))
    chosen = {*dtypes} - {OTHERS}
    return [
        (function, name, callee, units[function.family, function.table])
        for function in read_functions()
        if (function.family, function.table) in units
        for name, choice, callee in function.instances()
        if not chosen or chosen.issuperset(choice)
    ]


def glue_function(function: Function, name: str, callee: str) -> str:
    call = f"{callee}({function.arguments})"
    if function.result == "int32_t":
        call = f'bk::leave("{name.removeprefix(PREFIX)}", {call})'
    return f"BK_EXPORT {function.result} {name}({function.params}) {{\n    return {call};\n}}\n"


def include_lines(includes: set[str]) -> list[str]:
    """An op's header and, if the targets differ, <op>_cuda.cuh or <op>_cpu.h."""
    lines = []
    for include in sorted(includes):
        stem = include.removesuffix(".h")
        lines.append(f'#include "{include}"')
        if (ROOT / "native" / f"{stem}_cpu.h").exists():
            lines += ["#if BK_CUDA", f'#include "{stem}_cuda.cuh"', "#else", f'#include "{stem}_cpu.h"', "#endif"]
    return lines


def columns(words: list[str]) -> str:
    return textwrap.fill(" ".join(words), 120, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def select(rows: list[Row], families: list[str], dtypes: list[str]) -> list[Instance]:
    """The instances of a partial library; an empty list chooses all."""
    if unknown := sorted(set(dtypes) - {*C_TYPES, OTHERS}):
        raise TableError(f"DTYPES: {unknown[0]!r} is no dtype; there are {' '.join(C_TYPES)}")
    everything = [(op, row, slots) for row in rows for op, slots in row.instances()]
    allowed = {id(row): dtypes_of(row, dtypes) for row in rows}
    alone = tables_without_rows().values()
    units = sorted({row.unit_of(slots) for _, row, slots in everything} | set(alone))
    of_table = collections.defaultdict(set)  # rows may be compiled in the units of another table
    for _, row, slots in everything:
        of_table[f"{row.family}.{row.table}"].add(row.unit_of(slots))
    chosen = {name: {unit for unit in units if is_named(unit, [name])} | of_table[name] for name in families}
    for name, found in chosen.items():
        if not found:
            begun = [unit for unit in units if unit.split(".")[0] == name.split(".")[0]]
            near = begun or sorted({row.family for row in rows})
            raise TableError(f"FAMILIES: {name!r} is no family, table or unit; there are:\n{columns(near)}")
    wanted = set().union(*chosen.values()) if families else set(units)
    part = [
        (op, row, slots)
        for op, row, slots in everything
        if row.unit_of(slots) in wanted and all(slots[slot] in choices for slot, choices in allowed[id(row)].items())
    ]
    if not part and not wanted.intersection(alone):
        raise TableError(f"FAMILIES={' '.join(families)!r} has no op of DTYPES={' '.join(dtypes)!r}")
    return part


def dtypes_of(row: Row, dtypes: list[str]) -> dict[str, list[str]]:
    """Choices of {T} and {U} of a row in a library of these dtypes."""
    typed = {slot: choices for slot, choices in row.slots.items() if slot in ("T", "U")}
    found = {slot: [choice for choice in choices if not dtypes or choice in dtypes] for slot, choices in typed.items()}
    if OTHERS in dtypes and not all(found.values()):
        return {slot: found[slot] or [choices[0]] for slot, choices in typed.items()}
    return found


def glue_files(instances: list[Instance], dtypes: Sequence[str] = ()) -> dict[str, str]:
    units = collections.defaultdict(list)
    functions = collections.defaultdict(list)
    for function, name, callee, unit in functions_in(instances, dtypes):
        functions[f"{unit}.cu"].append((function, name, callee))
    for op, row, slots in instances:
        units[f"{row.unit_of(slots)}.cu"].append((op, row, slots))
    files = {}
    for name in sorted({*units, *functions}):
        entries = units[name]
        head = [f"// {NOTICE}", '#include "core/abi/entry.h"']
        includes = {include for _, row, slots in entries for include in row.includes_of(slots)}
        head += include_lines(
            includes | {include for function, _, _ in functions[name] for include in function.includes}
        )
        parts = [glue_row(*entry) for entry in entries] + [glue_function(*each) for each in functions[name]]
        files[name] = "\n".join(head) + "\n\n" + "\n".join(parts)
    return files


def write_glue(rows: list[Row], dtypes: list[str], out: pathlib.Path) -> None:
    files = glue_files(select(rows, [], dtypes), dtypes)
    for name, text in files.items():
        write_if_changed(out / name, text)
    for stale in {p.name for p in out.glob("*.cu")} - set(files):
        (out / stale).unlink()


def part_files(rows: list[Row], families: list[str], dtypes: list[str]) -> dict[str, str]:
    instances = select(rows, families, dtypes)
    own = {name for name, _ in prototypes_of(PROLOGUE.read_text())}
    own |= {name for op, row, slots in instances for _, name, _ in row.prototypes(op, slots)}
    functions = functions_in(instances, dtypes, families)
    own |= {name for _, name, _, _ in functions}
    header = header_text(rows)
    symbols = [name for name, _ in prototypes_of(header) if name in own]
    restricted = {key: names for key, names in (("families", families), ("dtypes", dtypes)) if names}
    about = "".join(f", {json.dumps(key)}: {json.dumps(names)}" for key, names in restricted.items())
    units = {row.unit_of(slots) for _, row, slots in instances} | {unit for *_, unit in functions}
    return {
        "units.txt": "".join(f"{unit}\n" for unit in sorted(units)),
        "symbols.inc": f"// {NOTICE}\n" + "".join(f'"{name}",\n' for name in symbols),
        "abi_hash.inc": f'// {NOTICE}\n"{abi_hash(header)}"\n',  # whole ABI: a partial library serves the same callers
        "part.inc": f'// {NOTICE}\nR"part({about})part"\n',
    }


# --- Python ----------------------------------------------------------------------------------------------------------


def oplist_text(rows: list[Row]) -> str:
    """One tuple per row, with the fields of baracuda._library.op_table.Row."""
    lines = [f'"""The op table. {NOTICE}"""', "", f'ABI_HASH = "{abi_hash(header_text(rows))}"', ""]
    lines.append("ROWS: tuple[tuple[object, ...], ...] = (")
    for row in rows:
        params = tuple(map(tuple, row.params))
        check = () if row.check_params == row.params else tuple(p.name for p in row.check_params)
        sized = () if row.size_params == row.problem else tuple(p.name for p in row.size_params)
        about = (
            row.workspace,
            row.deterministic,
            row.batch_invariant,
            row.doc,
            row.saves,
            row.defaults,
            row.in_place,
            row.accumulates,
            row.leaves,
            row.is_bare,
            row.gradient,
            row.points,
            row.about,
            row.indexes,
            tuple(map(tuple, row.calls)),
        )
        fields = (row.name, row.family, row.functions, row.slots, params, check, sized, row.reads, *about)
        lines += ["    (", *(f"        {field!r}," for field in fields), "    ),"]
    return "\n".join(lines) + "\n)\n"


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    sub.add_parser("header").add_argument("--check", action="store_true")
    for command in (sub.add_parser("glue"), sub.add_parser("part")):
        command.add_argument("dir", type=pathlib.Path)
        command.add_argument("--dtypes", type=str.split, default=[])
    command.add_argument("--families", type=str.split, default=[])
    sub.add_parser("oplist").add_argument("file", type=pathlib.Path)
    args = ap.parse_args()
    try:
        return write(args, read_all())
    except TableError as error:
        print(f"gen_abi.py: {error}", file=sys.stderr)
        return 1


def write(args: argparse.Namespace, rows: list[Row]) -> int:
    if args.what == "glue":
        write_glue(rows, args.dtypes, args.dir)
    elif args.what == "part":
        for name, text in part_files(rows, args.families, args.dtypes).items():
            write_if_changed(args.dir / name, text)
    elif args.what == "oplist":
        write_if_changed(args.file, oplist_text(rows))
    elif not args.check:
        write_if_changed(HEADER, header_text(rows))
    elif not HEADER.exists() or HEADER.read_text() != header_text(rows):
        print(f"{HEADER.name} does not follow from the op tables: run `make abi` and commit it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

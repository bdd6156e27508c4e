#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ functions over the C ABI from the op tables.

usage: gen_cpp.py DIR

DIR/baracuda/<family>/<table>.hpp has the functions of a table, DIR/baracuda/<family>.hpp those of a family and
DIR/baracuda/kernels.hpp all; they include include/baracuda/core.hpp, which is written by hand. An op of several dtypes
is one overloaded function: `segment_sum{I}_{T}` is segment_sum. Its checks and its workspace size have no typed
pointers, and are templates of the dtypes, in the order T, U, I.
"""

import argparse
import collections
import pathlib
import re
import sys

from abi_row import BITS, C_TYPES, SLOTS, Param, Row, TableError, symbol_of
from abi_table import read_all
from gen_abi import comment, describe, write_if_changed

NOTICE = "Written by tools/gen_cpp.py: do not edit."
OWN_TYPES = {
    "bk::boolean": "bool", "bk::e4m3": "fp8e4m3", "bk::e5m2": "fp8e5m2", "bk::c32": "std::complex<float>",
    "bk::c64": "std::complex<double>",
}  # fmt: skip


def element(dtype: str) -> str:
    """C++ type of the elements of a dtype."""
    kernel = C_TYPES[dtype]
    return OWN_TYPES.get(kernel) or (f"std::{kernel}" if kernel.endswith("_t") else kernel.removeprefix("bk::"))


def function_name(row: Row, slots: dict[str, str]) -> str:
    """The op's name without its dtypes, except dtypes that no parameter has, which overloads could not distinguish."""
    name, seen = row.pattern.replace("{F}", slots.get("F", "")), {p.dtype.partition(".")[0] for p in row.params}
    for slot in set(row.slots) - seen - {"I", "O"}:
        name = name.replace(f"{{{slot}}}", slots[slot])
    return re.sub(r"_?{[TUIO]}", "", name)


def takes_bits(p: Param, slots: dict[str, str]) -> bool:
    """Whether C passes the bits of an element and C++ the element."""
    slot, _, form = p.dtype.partition(".")
    return form == "bits" and slots[slot] in BITS


def parameter(p: Param, slots: dict[str, str]) -> str:
    dtype = slots[p.dtype.partition(".")[0]] if takes_bits(p, slots) or p.is_addresses else p.dtype_of(slots)
    pointer = "" if not p.direction else "*" if p.is_output else " const*"
    pointer += " const*" * (p.is_list or p.is_addresses)
    return f"{element(dtype)}{pointer} {p.name}"


def argument(p: Param, slots: dict[str, str]) -> str:
    if p.is_list:
        return f"reinterpret_cast<{p.field_type(slots).replace('const void', 'void const')}>({p.name})"
    if not takes_bits(p, slots):
        return p.name
    dtype = slots[p.dtype.partition(".")[0]]
    return p.name if dtype == "bool" else f"detail::bits_of({p.name})" if dtype == "c32" else f"{p.name}.bits"


def template_parameter(p: Param) -> str:
    """Declaration of a scalar or host array in a template of the dtypes."""
    slot, _, form = p.dtype.partition(".")
    dtype = (
        element(slot)
        if slot not in SLOTS
        else f"typename detail::{form}<{slot}>::type"
        if form in ("compute", "real")
        else slot
    )
    pointer = ("*" if p.is_output else " const*") if p.direction else ""
    return f"{dtype}{pointer}{' const*' * p.is_list} {p.name}"


def template_of(row: Row) -> tuple[str, list[str]]:
    """(`template <class T, class I>`, the slots) of functions without pointers."""
    slots = [slot for slot in SLOTS if slot in row.slots]
    return f"template <{', '.join(f'class {slot}' for slot in slots)}>", slots


def declarations(row: Row, functions: list[str]) -> list[str]:
    """Primary templates that a row's instances specialise; a row without dtypes has a plain function."""
    template, slots = template_of(row)
    if not slots:
        return []
    checked = ", ".join(template_parameter(p) for p in row.check_params if not p.is_pointer)
    sized = ", ".join(map(template_parameter, row.size_params))
    lines = []
    for name in functions:
        lines.append(f"{template} status {name}_can_implement({checked});")
        if row.workspace:
            lines.append(f"{template} std::size_t {name}_workspace_size({sized});")
    return lines


def instance(op: str, row: Row, slots: dict[str, str]) -> list[str]:
    """The overload of one op, and its specialisations."""
    name = function_name(row, slots)
    types = ", ".join(element(slots[slot]) for slot in template_of(row)[1])
    template, types = ("template <> ", f"<{types}>") if types else ("", "")
    checked = ", ".join(parameter(p, slots) for p in row.check_params if not p.is_pointer)
    checks = ", ".join("nullptr" if p.is_pointer else argument(p, slots) for p in row.check_params)
    lines = [
        f"{template}inline status {name}_can_implement{types}({checked}) "
        f"{{ return static_cast<status>({symbol_of(op, 'can_implement')}({checks})); }}"
    ]
    if row.workspace:
        problem = ", ".join(parameter(p, slots) for p in row.size_params)
        size = f"{symbol_of(op, 'workspace_size')}({', '.join(argument(p, slots) for p in row.size_params)})"
        lines.append(f"{template}inline std::size_t {name}_workspace_size{types}({problem}) {{ return {size}; }}")
    reserve, memory = "", "nullptr, 0"
    if row.workspace and not row.is_bare:
        reserve, memory = f"auto at = detail::reserve(on, [&] {{ return {size}; }}); ", "at.data, at.bytes"
    params = ", ".join([*(parameter(p, slots) for p in row.params), "const launch& on = {}"])
    tail = ["on.stream.handle()"] if row.is_bare else [memory, "on.stream.handle()"]
    arguments = ", ".join([*(argument(p, slots) for p in row.params), *tail])
    lines.append(f"inline void {name}({params}) {{ {reserve}detail::check({symbol_of(op, 'run')}({arguments})); }}")
    return lines


def header(guard: str, includes: list[str], body: list[str]) -> str:
    macro = f"BARACUDA_{guard.upper()}_HPP"
    lines = [
        f"// {NOTICE}",
        f"#ifndef {macro}",
        f"#define {macro}",
        "",
        *(f'#include "{name}"' for name in includes),
        "",
    ]
    if body:
        lines += ["namespace baracuda {", *body, "", "}  // namespace baracuda", ""]
    return "\n".join([*lines, f"#endif  // {macro}", ""])


def files(rows: list[Row]) -> dict[str, str]:
    tables = collections.defaultdict(list)
    for row in rows:
        lines = tables[row.family, row.table]
        instances = list(row.instances())
        names = dict.fromkeys(function_name(row, slots) for _, slots in instances)
        lines += ["", comment(describe(row)).rstrip(), *declarations(row, list(names))]
        for op, slots in instances:
            lines += instance(op, row, slots)
    families = collections.defaultdict(list)
    texts = {}
    for (family, table), lines in tables.items():
        texts[f"{family}/{table}.hpp"] = header(f"{family}_{table}", ["baracuda/core.hpp"], lines)
        families[family].append(f"baracuda/{family}/{table}.hpp")
    for family, includes in families.items():
        texts[f"{family}.hpp"] = header(family, includes, [])
    texts["kernels.hpp"] = header("kernels", [f"baracuda/{family}.hpp" for family in families], [])
    return texts


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir", type=pathlib.Path)
    folder = ap.parse_args().dir / "baracuda"
    try:
        texts = files(read_all())
    except TableError as error:
        print(f"gen_cpp.py: {error}", file=sys.stderr)
        return 1
    for name, text in texts.items():
        write_if_changed(folder / name, text)
    for stale in set(folder.rglob("*.hpp")) - {folder / name for name in texts}:
        stale.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

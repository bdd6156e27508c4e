# SPDX-License-Identifier: Apache-2.0
"""The page of a group, in Markdown."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import Any

from tools.docs.examples import Cell, functions_of
from tools.docs.formula import typeset
from tools.docs.groups import TITLES, Group, table_path
from tools.docs.measurements import details, error, speed, table

from abi_row import Param, Row  # isort: skip

ROLES = {
    "extent": "number of elements, rows or columns",
    "rank": "number of axes, 0 to 8",
    "shape": "extents",
    "axis": "axis",
    "mode": "choice between variants",
    "parameter": "parameter of the function",
}
DIRECTIONS = {
    "in": "input", "in?": "input, may be NULL", "out": "output", "out?": "output, may be NULL",
    "inout": "read and written", "inout?": "read and written, may be NULL", "host": "host array",
    "ins": "host array of inputs",
    "outs": "host array of outputs", "outs?": "host array of outputs, each of which may be NULL",
}  # fmt: skip
DETERMINISTIC = {
    "yes": "Deterministic: every launch gives the same bits.",
    "no": "Not deterministic.",
    "workspace": "Deterministic with a workspace, and only then.",
}

BATCH_INVARIANT = {
    "yes": "Batch-invariant: the bits of a result row depend on that row's inputs alone.",
    "no": "Not batch-invariant.",
    "preference": "Batch-invariant if asked for: the bits of a result row then depend on that row's inputs alone.",
}


def page(group: Group, cells: list[Cell], refused: list[tuple[str, str]]) -> str:
    """A page's text. `cells` have their output; `refused` is the result of refusals()."""
    plain = [member for member in group.members if "_strided" not in member[0].pattern] or group.members
    parts = [
        f"# {group.function}\n",
        f"{TITLES[group.section]} · `{group.key}` · {' '.join(f'`{dtype}`' for dtype in group.dtypes)}\n",
        formulas(group),
        "## Example\n\n" + example(cells),
        "## Python\n\n" + "\n\n".join(filter(None, (functions(group), python(cells)))),
        f"## C\n\n{TAIL}\n\n" + "\n\n".join(form(group, row, function) for row, function in plain),
    ]
    if strided := [member for member in group.members if member not in plain]:
        body = "\n\n".join(form(group, row, function) for row, function in strided)
        parts.append(f"## C, strided forms\n\n{STRIDED}\n\n{body}")
    head = ("status", "what `baracuda_kernels_last_error()` says behind the name of the op")
    lines = [(status, f"`{text}`".replace("|", "\\|")) for status, text in refused]
    parts.append(f"## Errors\n\n{REFUSED}\n\n{details('All of them', table(head, lines))}")
    if text := error(group):
        parts.append(f"## Error against the true value\n\n{text}")
    if text := speed(group):
        parts.append(f"## Speed\n\n{text}")
    tables = dict.fromkeys(table_path(row) for row, _ in group.members)
    headers = dict.fromkeys(f"native/{h}" for row, f in group.members for h in row.includes_of({"F": f}))
    own = [h for h in headers if f"/{group.family}/" in h]
    links = ", ".join(f"[{path}](repo:{path})" for path in [*tables, *own])
    parts.append(f"## Source\n\n{links}\n")
    return "\n\n".join(parts) + "\n"


TAIL = (
    "Behind its own arguments each `_run` takes the [workspace](../../concepts/workspaces.md), its size in bytes and "
    "the [stream](../../concepts/streams.md); NULL, 0 and NULL will do unless the workspace is said to be needed."
)
STRIDED = (
    "Every stride counts elements and may be 0 or negative. "
    "[Strides](../../concepts/strides.md) says what broadcasts and what is summed."
)
REFUSED = (
    "These calls fail, and nothing is written. They are made while this page is, on the CPU library. Python raises the "
    "[exception](../../concepts/errors.md) of the status, mostly with a text of its own before C is called."
)


# --- formulas ---------------------------------------------------------------------------------------------------------


def formulas(group: Group) -> str:
    """One line per formula of the group; forms with equal formulas share it."""
    said: dict[str, list[str]] = {}
    for row, function in group.members:
        if "_strided" in row.pattern and not row.pattern.startswith("gated"):
            continue
        said.setdefault(statement(row, function), []).append(heading(group, row, function))
    items = [
        f'<div class="bk-formula"><span class="bk-form">{escape(", ".join(names))}</span><p>{text}</p></div>'
        for text, names in said.items()
    ]
    return '<div class="bk-formulas">\n' + "\n".join(items) + "\n</div>"


def escape(text: str) -> str:
    """Text with Markdown's marks escaped, except code between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"[{}*_<>]", lambda m: f"&#{ord(m[0])};", p) for p in parts)


def name_of(row: Row, function: str) -> str:
    """The ops of a row without their dtypes: unary_gelu_backward."""
    name = row.pattern.replace("{F}", function)
    return re.sub(r"_?\{[TUIO]\}", "", name)


def statement(row: Row, function: str) -> str:
    """Formula of a row for a function, as HTML."""
    doc = row.doc.replace("{F}", function)
    if not function:
        return typeset(doc)
    said = row.functions[function]
    formula = typeset(said)
    result = "dx" if "_backward" in row.pattern else "y"
    outputs = [p.name for p in row.pointers if p.is_output]
    lead = formula if "=" in said.split(",")[0] and re.match(r"d?\w+ =", said) else None
    if lead is None and len(outputs) == 1 and formula.startswith("<math>"):
        lead = formula.replace("<math>", f"<math>{equals(outputs[0])}", 1)
    text = lead or formula
    doc = re.sub(r"^y = f\([a-z, ]*\)(, |\.? ?)", "", doc)
    doc = re.sub(rf"^{result} from ", f"{result} from ", doc)
    return f"{display(text)}<br><small>{typeset(doc[:1].upper() + doc[1:] if doc[:1] not in 'yd' else doc)}</small>"


def equals(name: str) -> str:
    return "<mrow><mi>d</mi><mi>x</mi></mrow><mo>=</mo>" if name == "dx" else f"<mi>{name}</mi><mo>=</mo>"


def display(text: str) -> str:
    """Formula with fractions in full size."""
    return text.replace("<math>", '<math displaystyle="true">')


# --- C ---------------------------------------------------------------------------------------------------------------


def form(group: Group, row: Row, function: str) -> str:
    """Prototypes, arguments and guarantees of one row."""
    op, slots = next((op, slots) for op, (of, slots) in group.ops.items() if of is row)
    prototypes = "\n".join(
        prototype(result, name, params) for result, name, params in row.prototypes(op, {**slots, "F": function})
    )
    instances = [(name, chosen) for name, (of, chosen) in group.ops.items() if of is row]
    lines = [argument(p, row, function, slots) for p in row.params]
    head = ("argument", "C type", "", "")
    return "\n\n".join(
        [
            f"### {heading(group, row, function)}",
            dtypes(row),
            f"```c\n{prototypes}\n```",
            table(head, lines),
            "\n".join(f"- {text}" for text in promises(row, function)),
            details(f"All {len(instances)} functions", " ".join(f"`{name}`" for name, _ in instances))
            if len(instances) > 1
            else "",
        ]
    ).rstrip()


def heading(group: Group, row: Row, function: str) -> str:
    """The name without dtypes, with the table's suffix if another form has the same."""
    name = name_of(row, function)
    more = row.name.partition(" ")[2]
    alone = [name_of(*member) for member in group.members].count(name) == 1
    return name if alone or not more else f"{name}, {more}"


def dtypes(row: Row) -> str:
    parts = [f"`{{{slot}}}` is {listed(choices)}" for slot, choices in row.slots.items()]
    return "; ".join(parts) + "."


def listed(names: Any) -> str:
    quoted = [f"`{name}`" for name in names]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def prototype(result: str, name: str, params: str) -> str:
    """A prototype, wrapped at 96 columns."""
    text = f"{result} {name}({params});"
    if len(text) <= 96:
        return text
    unbroken = f"{params});".replace(", ", ",\0").replace(" ", "\1").replace("\0", " ")  # breaks only behind commas
    body = textwrap.fill(unbroken, 96, initial_indent="    ", subsequent_indent="    ").replace("\1", " ")
    return f"{result} {name}(\n{body}"


def argument(p: Param, row: Row, function: str, slots: dict[str, str]) -> tuple[str, str, str, str]:
    kind = p.prototype(slots).removesuffix(p.name).strip()
    dtype = {"T": "`{T}`", "U": "`{U}`", "I": "`{I}`", "O": "`{O}`"}.get(p.dtype, f"`{p.dtype_of(slots)}`")
    if p.is_pointer or p.is_list:
        what = DIRECTIONS[p.direction]
        if p.is_addresses:
            direction, name = row.points[p.name]
            what += f", addresses of `{name}`: {DIRECTIONS[direction]}"
        if p.name == "saved":
            what += f": `{row.saves[function]}` of the forward op"
        return (f"`{p.name}`", f"`{kind}`", f"{dtype} `[{p.shape}]`", what)
    what = {
        "stride": f"strides of `{p.of}`",
        "pitch": f"elements from one row of `{p.of or p.name.removeprefix('ld')}` to the next",
        "offset": f"offset within `{p.of}`",
    }.get(p.role) or ROLES[p.role]
    default = row.defaults.get(function, {}).get(p.name)
    if default is not None:
        what += f", usually {default}"
    return (f"`{p.name}`", f"`{kind}`", f"host `[{p.shape}]`" if p.direction == "host" else "", what)


def promises(row: Row, function: str) -> list[str]:
    said = [DETERMINISTIC[row.deterministic], BATCH_INVARIANT[row.batch_invariant]]
    for out, inputs in row.in_place.items():
        if inputs:
            said.append(f"`{out}` may be {listed(inputs)}.")
    if row.is_apart:
        said.append("No output may be an input.")
    said += [f"`{out}` is added to; clear it first to have the result alone." for out in row.accumulates.split()]
    if row.workspace:
        said.append(f"Workspace: {row.workspace}.")
    reads = row.reads.get(function)
    if reads is not None:
        first = row.first_input.name
        each = "; ".join(f"`{out}` reads {' '.join(f'`{x}`' for x in (first, *names))}" for out, names in reads.items())
        said.append(f"An input that no wanted output reads may be NULL: {each}.")
    return said


# --- Python ----------------------------------------------------------------------------------------------------------


def example(cells: list[Cell]) -> str:
    parts = []
    for cell in cells:
        parts.append(f"**{cell.title}**\n\n```python\n{cell.code}\n```\n\n```text\n{cell.output}\n```")
    return "\n\n".join(parts)


def functions(group: Group) -> str:
    """The functions on arrays: signatures, and docstrings without the row's text."""
    from baracuda.functions import documentation, signature

    parts = []
    for spec in functions_of(group):
        paragraphs = documentation(spec).strip().split("\n\n")
        begins = ("In the formulas", "dtypes:")
        has_about = bool(spec.described.row.about)
        start = 0 if has_about else next(i for i, text in enumerate(paragraphs) if text.startswith(begins))
        notes = "\n\n".join(escape(text) for text in paragraphs[start:])
        parts.append(f"```text\nbaracuda.{spec.name}({signature(spec)})\n```\n\n{notes}")
    return "\n\n".join(parts)


def python(cells: list[Cell]) -> str:
    """Descriptors and arguments of the plans in the example."""
    import baracuda as bk

    names = dict.fromkeys(re.findall(r"\bbk\.(\w+Plan)\b", "\n".join(cell.code for cell in cells)))
    plans = []
    for plan in [getattr(bk, name) for name in names]:
        plans += [plan, *getattr(plan, "directions", {}).values()]
    parts = []
    for plan in plans:
        runs = getattr(plan, "directions", ("run",))
        classes = [plan.descriptor_type] if "run" not in runs else [plan.descriptor_type, plan.args_type]
        lines = [
            f"plan = baracuda.{plan.__name__}.select(stream, descriptor, preference=PlanPreference())",
            *(f"plan.{run}({', '.join(list(inspect.signature(getattr(plan, run)).parameters)[1:])})" for run in runs),
            *(f"{word:11} {fields_of(each)}" for word, each in zip(("descriptor:", "args:"), classes)),
        ]
        notes = [inspect.cleandoc(c.__doc__) for c in classes if own_doc(c)]
        parts.append("```text\n" + "\n".join(lines) + "\n```\n\n" + "\n\n".join(escape(note) for note in notes))
    return (
        "\n\n".join(part.rstrip() for part in parts) + "\n\n[Plans](../../concepts/plans.md) has what all plans share."
    )


def own_doc(cls: type) -> bool:
    """Whether a class has its own docstring, not its base's or the one that dataclasses generate."""
    own = str(cls.__dict__.get("__doc__") or "")
    return own not in ("", cls.__base__.__doc__) and not own.startswith(f"{cls.__name__}(")


def fields_of(cls: type) -> str:
    fields = sorted(dataclasses.fields(cls), key=lambda field: field.kw_only)
    parts = []
    for field in fields:
        default = "" if field.default is dataclasses.MISSING else f"={field.default!r}"
        parts.append(("*, " if field.kw_only and "*, " not in "".join(parts) else "") + field.name + default)
    return f"{cls.__name__}({', '.join(parts)})"

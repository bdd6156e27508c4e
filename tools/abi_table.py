"""Reads the op tables native/<family>/<family>.abi.

A table is an INI file and a section of it one row, a family of symbols that differ in dtypes alone. Its keys:

template       C++ class template that implements the row, `{T}`, `{I}` standing for dtypes
include        the header, relative to native/, that defines it
T, I           dtypes of the slots; a name takes `{T}` as it is and `{I}` as "", "_i64idx" or "_u8idx"
params         one a line: a scalar `i64 numel`, a host array `host i32 shape[rank]`, or a device array
               `in|out|inout dtype name[extents]`; `in?` and `out?` may be NULL, which the template then decides itself
workspace      present where `_workspace_size` exists: what the workspace is for
can_implement  names of its parameters, where they are not all of `params`
deterministic  yes, no, or "workspace" (only with one)
doc            one paragraph for the header and the op list
"""

import configparser
import dataclasses
import itertools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREFIX = "baracuda_kernels_"
C_TYPES = {
    "f64": "double", "f32": "float", "f16": "bk::f16", "bf16": "bk::bf16",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "bool",
}  # fmt: skip
INDEX_SUFFIX = {"i32": "", "i64": "_i64idx", "u8": "_u8idx"}
DIRECTIONS = {"in", "in?", "out", "out?", "inout"}
KEYS = {"template", "include", "params", "workspace", "can_implement", "deterministic", "doc"}


class TableError(Exception):
    """A row that cannot be understood, with the place of it."""


@dataclasses.dataclass(frozen=True)
class Param:
    name: str
    dtype: str  # a key of C_TYPES, or a slot: "T", "I"
    direction: str = ""  # "" for a scalar, "host", or one of DIRECTIONS
    shape: str = ""

    @property
    def is_pointer(self) -> bool:
        return self.direction in DIRECTIONS

    @property
    def is_required(self) -> bool:
        return self.is_pointer and not self.direction.endswith("?")

    @property
    def is_output(self) -> bool:
        return "out" in self.direction

    def element(self, slots: dict[str, str]) -> str:
        """C++ type of the value, or of the elements behind the pointer."""
        return C_TYPES[slots.get(self.dtype, self.dtype)]

    def prototype(self, *, const: bool = False) -> str:
        """The parameter in the C header; can_implement takes every pointer as const."""
        if self.is_pointer:
            return f"{'void*' if self.is_output and not const else 'const void*'} {self.name}"
        if self.direction == "host":
            return f"const {C_TYPES[self.dtype]}* {self.name}"
        return f"{C_TYPES[self.dtype]} {self.name}"

    def field_type(self) -> str:
        """Type of the template's member that holds a scalar or host array."""
        return f"const {C_TYPES[self.dtype]}*" if self.direction == "host" else C_TYPES[self.dtype]

    def pointer_type(self, slots: dict[str, str]) -> str:
        return f"{self.element(slots)}*" if self.is_output else f"const {self.element(slots)}*"


@dataclasses.dataclass(frozen=True)
class Row:
    family: str
    name: str
    template: str
    include: str
    slots: dict[str, tuple[str, ...]]
    params: tuple[Param, ...]
    check_params: tuple[Param, ...]
    workspace: str
    deterministic: str
    doc: str

    @property
    def problem(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if not p.is_pointer)

    @property
    def pointers(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.is_pointer)

    def instances(self):
        """Yield (op name, slots) for every choice of dtypes."""
        for choice in itertools.product(*self.slots.values()):
            slots = dict(zip(self.slots, choice))
            op = self.name
            for slot, dtype in slots.items():
                op = op.replace(f"{{{slot}}}", INDEX_SUFFIX[dtype] if slot == "I" else dtype)
            yield op, slots

    def prototypes(self, op: str):
        """Yield (result type, function name, parameter list) of one instance's functions."""
        tail = ["void* workspace", "size_t workspace_bytes", "void* stream"]
        yield "int32_t", f"{PREFIX}{op}_run", ", ".join([p.prototype() for p in self.params] + tail)
        check = ", ".join(p.prototype(const=True) for p in self.check_params)
        yield "int32_t", f"{PREFIX}{op}_can_implement", check
        if self.workspace:
            yield "size_t", f"{PREFIX}{op}_workspace_size", ", ".join(p.prototype() for p in self.problem)


def parse_param(text: str) -> Param:
    m = re.fullmatch(r"(?:(host|in\??|out\??|inout) )?(\w+) (\w+)(?:\[(.*)\])?", text)
    if not m:
        raise TableError(f"parameter {text!r} is not '[direction] dtype name[shape]'")
    direction, dtype, name, shape = m.groups(default="")
    if bool(direction) != bool(shape):
        raise TableError(f"parameter {text!r}: an array has a direction and a shape, a scalar neither")
    return Param(name, dtype, direction, shape)


def parse_row(family: str, name: str, section) -> Row:
    slots = {key: tuple(section[key].split()) for key in section if key.isupper()}
    unknown = set(section) - KEYS - set(slots)
    if unknown:
        raise TableError(f"unknown key {sorted(unknown)[0]!r}")
    params = tuple(parse_param(" ".join(line.split())) for line in section["params"].strip().splitlines())
    for p in params:
        if p.dtype not in C_TYPES and p.dtype not in slots:
            raise TableError(f"parameter {p.name}: unknown dtype {p.dtype!r}")
    for slot, dtypes in slots.items():
        if bad := set(dtypes) - set(INDEX_SUFFIX if slot == "I" else C_TYPES):
            raise TableError(f"slot {slot}: unknown dtype {sorted(bad)[0]!r}")
    by_name = {p.name: p for p in params}
    chosen = section.get("can_implement", "").split()
    if missing := [n for n in chosen if n not in by_name]:
        raise TableError(f"can_implement: {missing[0]!r} is no parameter")
    if section["deterministic"] not in ("yes", "no", "workspace"):
        raise TableError("deterministic is yes, no or workspace")
    return Row(
        family=family, name=name, template=section["template"], include=section["include"], slots=slots, params=params,
        check_params=tuple(by_name[n] for n in chosen) or params, workspace=section.get("workspace", ""),
        deterministic=section["deterministic"], doc=" ".join(section["doc"].split()),
    )  # fmt: skip


def read_table(path: pathlib.Path) -> list[Row]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), empty_lines_in_values=False)
    parser.optionxform = str  # slots are upper case
    try:
        parser.read_string(path.read_text(), source=path.name)
        rows = []
        for name in parser.sections():
            try:
                rows.append(parse_row(path.stem, name, parser[name]))
            except (TableError, KeyError) as error:
                what = f"key {error} is missing" if isinstance(error, KeyError) else error
                raise TableError(f"{path.name} [{name}]: {what}") from None
    except configparser.Error as error:
        raise TableError(str(error)) from None
    return rows


def read_all() -> list[Row]:
    rows = [row for path in sorted(ROOT.glob("native/*/*.abi")) for row in read_table(path)]
    seen: dict[str, Row] = {}
    for row in rows:
        for op, _ in row.instances():
            if op in seen:
                raise TableError(f"{op} comes from both [{seen[op].name}] and [{row.name}]")
            seen[op] = row
    return rows

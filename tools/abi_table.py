"""Reads the op tables native/<family>/*.abi.

A table is an INI file and a section of it one row, a family of symbols that differ in dtypes, and in the function that
they apply, alone. Its name is the template of the symbols' names, and what follows a space tells apart rows of one
template: no two rows of any table have one name. Its keys:

template       C++ class template that implements the row, `{T}`, `{U}`, `{I}` standing for dtypes and `{F}` for the
               function's class: gelu_tanh is GeluTanh
include        headers, relative to native/, that define them; rows of a table that end with the same of several share a
               translation unit
T, U, I        dtypes of the slots; a name takes `{T}` and `{U}` as they are and `{I}` as "", "_i64idx" or "_u8idx"
F              functions, one a line: its name, then what it computes. A line `power.h:` names the header of the family
               that has the classes of those that follow; `elu(p0=1)` gives a parameter's default for this function
units          "T": a translation unit for each width of T, where one would be too long
params         one a line: a scalar `i64 numel`, a host array `host i32 shape[rank]`, or a device array
               `in|out|out?|inout dtype name[extents]`; `out?` may be NULL.
               A scalar of dtype `T.bits` has T's bit pattern (uint16_t for f16), one of `T.compute` is float for the
               16-bit floats and T otherwise. `f64 p0 = 1` has a default, for bindings that have such. The role of a
               scalar (ROLES) stands before it, `axis i32 split_dim`, where it does not follow from name and dtype
saves          what the operand `saved` of a gradient is, where that is not the input x: `y: sqrt exp`; and which
               functions do not read it: `nothing: neg sign`
reads          which inputs each output depends on, for functions of which not every output needs all, one a line:
               `mul  da: b, db: a`; a row without F says it of itself. An input that no wanted output reads may be
               NULL; the first one, which needs not be listed, never
workspace      present where `_workspace_size` exists: what the workspace is for
can_implement  names of its parameters, where they are not all of `params`
deterministic  yes, no, or "workspace" (only with one)
in_place       the inputs of its strides that an output may be, `y: cond a b`, where they are not all those of its dtype
               and extents; or no: no output may be an input at all
accumulates    the output to which the op adds; others are overwritten
doc            one paragraph for the header and the op list
like           a row of the same table: what this one does not say itself is as there
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
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "bk::boolean",
    "fp8e4m3": "bk::e4m3", "fp8e5m2": "bk::e5m2", "s4": "bk::s4x2", "u4": "bk::u4x2",
}  # fmt: skip
WIDTHS = {dtype: 64 if "64" in dtype else 32 if "32" in dtype else 16 if "16" in dtype else 8 for dtype in C_TYPES}
BITS = {"f16": "u16", "bf16": "u16", "bool": "u8", "fp8e4m3": "u8", "fp8e5m2": "u8"}
COMPUTE = {"f16": "f32", "bf16": "f32"}
INDEX_SUFFIX = {"i32": "", "i64": "_i64idx", "u8": "_u8idx"}
DIRECTIONS = {"in", "out", "out?", "inout"}
SLOTS = ("T", "U", "I")
# What a parameter that is no operand stands for: a number of elements or rows; the number of axes; their extents; the
# strides of an operand; one axis; where a part of an operand lies; a choice between variants; a number of the function.
ROLES = ("extent", "rank", "shape", "stride", "axis", "offset", "mode", "parameter")
KEYS = {
    "F", "template", "include", "units", "params", "saves", "reads", "workspace", "can_implement", "deterministic",
    "in_place", "accumulates", "doc", "like",
}  # fmt: skip
OWN = ("workspace", "can_implement", "like")  # keys that a row does not take from another


class TableError(Exception):
    """A row that cannot be understood, with the place of it."""


@dataclasses.dataclass(frozen=True)
class Param:
    name: str
    dtype: str  # a key of C_TYPES, or a slot: "T", "I"
    direction: str = ""  # "" for a scalar, "host", or one of DIRECTIONS
    shape: str = ""
    role: str = ""  # "operand" or one of ROLES
    of: str = ""  # the operand whose strides or offset it is
    default: float | int | None = None

    @property
    def is_pointer(self) -> bool:
        return self.direction in DIRECTIONS

    @property
    def is_required(self) -> bool:
        return self.is_pointer and not self.direction.endswith("?")

    @property
    def is_output(self) -> bool:
        return "out" in self.direction

    def dtype_of(self, slots: dict[str, str]) -> str:
        """dtype of the value, or of the elements behind the pointer."""
        slot, _, form = self.dtype.partition(".")
        dtype = slots.get(slot, slot)
        return {"": {}, "bits": BITS, "compute": COMPUTE}[form].get(dtype, dtype)

    def element(self, slots: dict[str, str]) -> str:
        """C++ type of it."""
        return C_TYPES[self.dtype_of(slots)]

    def prototype(self, slots: dict[str, str], *, const: bool = False) -> str:
        """The parameter in the C header; can_implement takes every pointer as const."""
        if self.is_pointer:
            return f"{'void*' if self.is_output and not const else 'const void*'} {self.name}"
        return f"{self.field_type(slots)} {self.name}"

    def field_type(self, slots: dict[str, str]) -> str:
        """Type of the template's member that holds a scalar or host array."""
        return f"const {self.element(slots)}*" if self.direction == "host" else self.element(slots)

    def pointer_type(self, slots: dict[str, str]) -> str:
        return f"{self.element(slots)}*" if self.is_output else f"const {self.element(slots)}*"


@dataclasses.dataclass(frozen=True)
class Row:
    family: str
    table: str
    name: str
    template: str
    includes: tuple[str, ...]
    functions: dict[str, str]  # name -> what it computes; empty for a row of one function
    headers: dict[str, str]  # name -> header of the family that has its class
    by_width: bool  # whether each width of T has a translation unit
    slots: dict[str, tuple[str, ...]]
    params: tuple[Param, ...]
    check_params: tuple[Param, ...]
    reads: dict[str, dict[str, tuple[str, ...]]]  # function ("" without F) -> output -> inputs but the first
    saves: dict[str, str]  # function -> "x" or "y", what the operand `saved` is; empty without one
    defaults: dict[str, dict[str, float | int]]  # function ("" without F) -> parameter -> default
    workspace: str
    deterministic: str
    is_apart: bool  # no output may be an input
    in_place: dict[str, tuple[str, ...]]  # output -> inputs that it may be
    accumulates: str  # the output that is added to
    doc: str

    @property
    def pattern(self) -> str:
        """Name template of the ops."""
        return self.name.split()[0]

    @property
    def problem(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if not p.is_pointer)

    @property
    def pointers(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.is_pointer)

    @property
    def first_input(self) -> Param:
        return next(p for p in self.pointers if not p.is_output)

    def needed(self, slots: dict[str, str]) -> dict[Param, tuple[Param, ...] | None]:
        """Pointers that may not be NULL: None, or only where one of these outputs is not."""
        reads = self.reads.get(slots.get("F", ""))
        outputs = tuple(p for p in self.pointers if p.is_output)
        needed = {}
        for p in filter(lambda p: p.is_required, self.pointers):
            readers = None
            if reads is not None and not p.is_output and p != self.first_input:
                readers = tuple(out for out in outputs if p.name in reads[out.name])
            if readers is None or any(out.is_required for out in readers):
                needed[p] = None
            elif readers:
                needed[p] = readers
        return needed

    def instances(self):
        """Yield (op name, slots) for every choice of function and dtypes; slots has the function under "F"."""
        choices = {"F": tuple(self.functions), **self.slots} if self.functions else self.slots
        for choice in itertools.product(*choices.values()):
            slots = dict(zip(choices, choice))
            op = self.pattern
            for slot, value in slots.items():
                op = op.replace(f"{{{slot}}}", INDEX_SUFFIX[value] if slot == "I" else value)
            yield op, slots

    def unit_of(self, slots: dict[str, str]) -> str:
        """Name of the translation unit that has an instance."""
        parts = [self.family, self.table]
        if len(includes := self.includes_of(slots)) > 1:
            parts.append(pathlib.PurePath(includes[-1]).stem)
        if self.by_width:
            parts.append(f"{WIDTHS[slots['T']]}bit")
        return ".".join(parts)

    def includes_of(self, slots: dict[str, str]) -> tuple[str, ...]:
        """The headers that an instance needs."""
        header = self.headers.get(slots.get("F", ""))
        return (*self.includes, f"{self.family}/{header}") if header else self.includes

    def class_of(self, slots: dict[str, str]) -> str:
        """The C++ class of one instance."""
        names = {"F": "".join(word.capitalize() for word in slots.get("F", "").split("_"))}
        names |= {slot: C_TYPES[slots[slot]] for slot in self.slots}
        return re.sub(r"{(\w)}", lambda m: names[m[1]], self.template)

    def prototypes(self, op: str, slots: dict[str, str]):
        """Yield (result type, function name, parameter list) of one instance's functions."""
        tail = ["void* workspace", "size_t workspace_bytes", "void* stream"]
        yield "int32_t", f"{PREFIX}{op}_run", ", ".join([p.prototype(slots) for p in self.params] + tail)
        check = ", ".join(p.prototype(slots, const=True) for p in self.check_params)
        yield "int32_t", f"{PREFIX}{op}_can_implement", check
        if self.workspace:
            yield "size_t", f"{PREFIX}{op}_workspace_size", ", ".join(p.prototype(slots) for p in self.problem)


def parse_number(text: str, dtype: str) -> float | int:
    try:
        return int(text) if re.fullmatch(r"-?\d+", text) and dtype not in ("f32", "f64") else float(text)
    except ValueError:
        raise TableError(f"default {text!r} is no number") from None


def parse_param(text: str) -> Param:
    before = rf"(?:({'|'.join(ROLES)}) )?(?:(host|in|out\??|inout) )?"
    m = re.fullmatch(rf"{before}([\w.]+) (\w+)(?:\[(.*)\])?(?: = (\S+))?", text)
    if not m:
        raise TableError(f"parameter {text!r} is not '[role] [direction] dtype name[shape] [= default]'")
    role, direction, dtype, name, shape, default = m.groups(default="")
    if bool(direction) != bool(shape):
        raise TableError(f"parameter {text!r}: an array has a direction and a shape, a scalar neither")
    if direction and default:
        raise TableError(f"parameter {text!r}: an array has no default")
    return Param(name, dtype, direction, shape, role, default=parse_number(default, dtype) if default else None)


def with_roles(params: tuple[Param, ...]) -> tuple[Param, ...]:
    """The parameters with the roles that follow from their names, dtypes and directions."""
    operands = [p.name for p in params if p.is_pointer]
    extents = {word for p in params for word in re.findall(r"[A-Za-z_]\w*", p.shape)}
    return tuple(dataclasses.replace(p, **role_of(p, operands, extents)) for p in params)


def role_of(p: Param, operands: list[str], extents: set[str]) -> dict[str, str]:
    role, of = p.role, ""
    if p.is_pointer:
        role = "operand"
    elif p.name.startswith("stride_") and not role:
        role, of = "stride", p.name.removeprefix("stride_")
        if of not in operands:
            raise TableError(f"parameter {p.name}: there is no operand {of!r}")
    elif p.direction == "host":
        role = role or ("shape" if p.name.endswith("shape") else "parameter")
    elif role == "offset":
        of = next((name for name in operands if p.name.startswith(f"{name}_")), "")
        if not of:
            raise TableError(f"parameter {p.name}: its name begins with that of no operand")
    elif not role and p.dtype in ("i32", "i64"):
        role = "rank" if p.name == "rank" else "extent" if p.name in extents or p.name.endswith("numel") else ""
        if not role:
            raise TableError(f"parameter {p.name}: its role, one of {' '.join(ROLES)}, must stand before it")
    return {"role": role or "parameter", "of": of}


@dataclasses.dataclass
class Functions:
    """What `F` says of each function."""

    docs: dict[str, str] = dataclasses.field(default_factory=dict)
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    defaults: dict[str, dict[str, float | int]] = dataclasses.field(default_factory=dict)


def parse_functions(text: str, params: tuple[Param, ...]) -> Functions:
    functions, header = Functions(), ""
    scalars = {p.name: p.dtype for p in params if p.role == "parameter"}
    for line in filter(None, map(str.strip, text.splitlines())):
        if re.fullmatch(r"\w+\.h:", line):
            header = line.removesuffix(":")
            continue
        name, given, doc = re.match(r"(\w*)(?:\(([^)]*)\))? *(.*)", line).groups(default="")
        if not doc:
            raise TableError(f"function {name!r} has no description")
        if name in functions.docs:
            raise TableError(f"function {name!r} stands here twice")
        functions.docs[name] = doc
        if header:
            functions.headers[name] = header
        pairs = [pair.strip().partition("=") for pair in given.split(",") if given]
        if unknown := [parameter for parameter, _, _ in pairs if parameter not in scalars]:
            raise TableError(f"function {name!r}: {unknown[0]!r} is no parameter of the row")
        functions.defaults[name] = {key: parse_number(value, scalars[key]) for key, _, value in pairs}
    return functions


def parse_saves(text: str, functions: dict[str, str], params: tuple[Param, ...]) -> tuple[dict[str, str], set[str]]:
    """What `saved` is for each function, and those that do not read it."""
    has_saved = any(p.name == "saved" for p in params)
    saves, nothing = dict.fromkeys(functions, "x") if has_saved else {}, set()
    for line in filter(None, map(str.strip, text.splitlines())):
        what, _, names = line.partition(":")
        if what not in ("y", "nothing"):
            raise TableError(f"saves: {line!r} does not begin with 'y:' or 'nothing:'")
        for name in names.split():
            if name not in saves:
                raise TableError(f"saves: {name!r} is no function of a row with an operand `saved`")
            if what == "y":
                saves[name] = "y"
            else:
                nothing.add(name)
    return saves, nothing


def parse_in_place(text: str, params: tuple[Param, ...]) -> dict[str, tuple[str, ...]]:
    """Which inputs each output may be."""
    inputs = [p for p in params if p.direction == "in"]
    outputs = [p for p in params if p.is_output]
    if text == "no":
        return {out.name: () for out in outputs}
    if not text:
        return {
            out.name: tuple(p.name for p in inputs if (p.dtype, p.shape) == (out.dtype, out.shape)) for out in outputs
        }
    pairs = [entry.partition(":") for entry in text.split(",")]
    given = {out.strip(): tuple(names.split()) for out, _, names in pairs}
    if unknown := set(given) - {p.name for p in outputs}:
        raise TableError(f"in_place: {sorted(unknown)[0]!r} is no output")
    if unknown := {name for names in given.values() for name in names} - {p.name for p in inputs}:
        raise TableError(f"in_place: {sorted(unknown)[0]!r} is no input")
    return {out.name: given.get(out.name, ()) for out in outputs}


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


def parse_row(path: pathlib.Path, name: str, section) -> Row:
    slots = {key: tuple(section[key].split()) for key in section if key in SLOTS}
    unknown = set(section) - KEYS - set(slots)
    if unknown:
        raise TableError(f"unknown key {sorted(unknown)[0]!r}")
    params = with_roles(tuple(parse_param(" ".join(line.split())) for line in section["params"].strip().splitlines()))
    for p in params:
        if not re.fullmatch(rf"{'|'.join(C_TYPES)}|({'|'.join(slots)})(\.bits|\.compute)?", p.dtype):
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
    if section.get("units", "T") != "T" or ("units" in section and "T" not in slots):
        raise TableError("units is T, a slot of the row")
    accumulates = section.get("accumulates", "")
    if accumulates and getattr(by_name.get(accumulates), "direction", "") != "inout":
        raise TableError(f"accumulates: {accumulates!r} is no `inout` parameter")
    functions = parse_functions(section.get("F", ""), params)
    saves, nothing = parse_saves(section.get("saves", ""), functions.docs, params)
    reads = parse_reads(section.get("reads", ""), functions.docs, params)
    reads |= {
        function: {p.name: () for p in params if p.is_output} for function in functions.docs if function in nothing
    }
    of_all = {p.name: p.default for p in params if p.default is not None}
    return Row(
        family=path.parent.name, table=path.stem, name=name, template=section["template"],
        includes=tuple(section["include"].split()),
        functions={name: f"{doc}{', saved = y' * (saves.get(name) == 'y')}" for name, doc in functions.docs.items()},
        headers=functions.headers, by_width="units" in section, slots=slots, params=params,
        check_params=tuple(by_name[n] for n in chosen) or params, reads=reads, saves=saves,
        defaults={name: of_all | functions.defaults.get(name, {}) for name in functions.docs or ("",)},
        workspace=section.get("workspace", ""), deterministic=section["deterministic"],
        is_apart=section.get("in_place") == "no", in_place=parse_in_place(section.get("in_place", ""), params),
        accumulates=accumulates, doc=" ".join(section["doc"].split()),
    )  # fmt: skip


def read_table(path: pathlib.Path) -> list[Row]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), empty_lines_in_values=False)
    parser.optionxform = str  # slots are upper case
    try:
        parser.read_string(path.read_text(), source=path.name)
        rows = []
        for name in parser.sections():
            try:
                section = dict(parser[name])
                if "like" in section:
                    section = {k: v for k, v in parser[section["like"]].items() if k not in OWN} | section
                rows.append(parse_row(path, name, section))
            except (TableError, KeyError) as error:
                what = f"key {error} is missing" if isinstance(error, KeyError) else error
                raise TableError(f"{path.name} [{name}]: {what}") from None
    except configparser.Error as error:
        raise TableError(str(error)) from None
    return rows


def read_all() -> list[Row]:
    rows = [row for path in sorted(ROOT.glob("native/*/*.abi")) for row in read_table(path)]
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

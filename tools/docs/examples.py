# SPDX-License-Identifier: Apache-2.0
"""The examples of the op pages: files of examples/<family>/, cut into cells, rewritten for a function, and run.

A file is a program about one function of a form: unary.py is about gelu. Its cells begin with `# %% title` or
`# %% title: op`; a cell that names an op is left out if the function lacks it. For another function the name replaces
the file's, and so do other inputs, if the file's would give NaN or infinity.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pathlib
import re

from baracuda._cli.describe import base
from baracuda._functions.spec import REQUIRED, Argument, Spec, specs
from tools.docs import ROOT, call_programs, code_plans, code_programs, plan_programs
from tools.docs.groups import Group

EXAMPLES = ROOT / "tools" / "docs" / "examples"
IMPORTS = "import numpy as np\n\nimport baracuda as bk\n\n"  # imports that only the first cell keeps
# Form -> the function in its file.
OWN = {"unary": "gelu", "unary_param": "elu", "binary": "mul", "binary_cmp": "eq", "ternary": "clamp", "gated": "glu"}
# Inputs that replace those of a file, tried until all printed numbers are finite.
OTHER_NUMBERS = (
    {},
    {"[-2, -0.5, 0.25, 1.5, 3]": "[-0.9, -0.5, 0.1, 0.5, 0.9]"},
    {"[-2, -0.5, 0.25, 1.5, 3]": "[0.25, 0.5, 0.6, 0.75, 0.9]"},
    {"[-2, -0.5, 0.25, 1.5, 3]": "[1.5, 2, 3, 4, 8]", "[[-2, 0.5, 1], [4, 5.5, -7]]": "[[2, 0.5, 1], [4, 5.5, 7]]"},
)
WHOLE_NUMBERS = {
    "[-2, -0.5, 0.25, 1.5, 3]": "[-2, 0, 1, 6, 40]",
    "[[-2, 0.5, 1], [4, 5.5, -7]]": "[[-2, 5, 1], [4, 12, -7]]",
    "[[2, -1.5, 3]]": "[[2, 3, 1]]",
}
TRUTHS = {
    "[-2, -0.5, 0.25, 1.5, 3]": "[True, False]",
    "[[-2, 0.5, 1], [4, 5.5, -7]]": "[[True, False], [False, True]]",
    "[[2, -1.5, 3]]": "[[True, False]]",
}
PARAMETERS = (2.0, -1.0)  # parameters of functions without defaults
# Inputs by the bytes of an element, in place of those of 4 bytes.
OF_WIDTH = {1: ("np.uint8", "bk.u8"), 2: ("np.float16", "bk.f16"), 8: ("np.float64", "bk.f64"),
            16: ("np.complex128", "bk.c64")}  # fmt: skip


def _shared() -> dict[str, tuple[str, dict[str, str]]]:
    """Groups that share the program of another group: the file, and replacements in it."""
    doubles = {"np.float32": "np.float64", "bk.f32": "bk.f64"}
    found: dict[str, tuple[str, dict[str, str]]] = {
        "rope_apply_interleaved": ("rope_apply", {
            "bk.RopeApply": "bk.RopeApplyInterleaved", ', "pairing": bk.RotaryPairing.ADJACENT': "",
        }),
        "tril": ("triu", {"triu": "tril", "Triu": "Tril"}),
        **{f"attention_paged_quantized_{u}": ("attention_paged_quantized", {}) for u in ("i8", "fp8e4m3", "fp8e5m2")},
        "attention_paged_fp8e5m2": ("attention_paged_fp8e4m3", {"E4M3": "E5M2"}),
        **{f"mmvq_multim_m{m}": ("mmvq_multim_m1", {}) for m in (2, 4, 8)},
        "fa2_sdpa_v2": ("fa2_sdpa", {}), "sdpa_arbmask": ("flash_sdpa", {}),
        "flashinfer_merge_state_in_place": ("flashinfer_merge_states", {}),
        "hyper_connection_f32": ("hyper_connection_bf16", {"bk.bf16": "bk.f32"}),
        "ring_attention_init": ("ring_attention_step", {}), "ring_attention_finalize": ("ring_attention_step", {}),
        **{f"{name}_update": (name, {}) for name in
           ("recurrent_gated_delta_rule", "recurrent_gated_linear_attention", "rwkv7")},
    }  # fmt: skip
    for name in ("rope", "rope_positions", "rope_starts", "rope_apply", "rope_apply_thd"):
        function = name.removesuffix("_positions")
        halves = {f"bk.{function}{back}(": f"bk.{function}_half{back}(" for back in ("", "_backward")}
        found[f"{name}_half"] = name, halves | {"ADJACENT": "HALVES"}
        if "apply" in name:
            found[f"{name}_f64tab"] = name, doubles
            found[f"{name}_half_f64tab"] = name, found[f"{name}_half"][1] | doubles
    for fold in ("max", "min"):
        names = {f"Segment{fold.title()}{part}": f"Segment{fold.title()}OrZero{part}"
                 for part in ("Plan", "Descriptor", "Args")}  # fmt: skip
        found[f"segment_{fold}_or_zero"] = f"segment_{fold}", names | {f"segment_{fold}(": f"segment_{fold}_or_zero("}
    for mode in ("reflect", "replicate", "circular"):
        found[f"pad_{mode}"] = (
            "pad_constant",
            {
                "pad_constant(": f"pad_{mode}(",
                "pad_constant_backward": f"pad_{mode}_backward",
                "CONSTANT": mode.upper(),
            },
        )
    found |= _ranks_of_convolution()
    found |= {f"{name}_{size}": ("fftshift_nd_4", {}) for name in ("fftshift", "ifftshift") for size in (4, 8, 16)}
    found |= {
        f"fftshift_nd_{n}": ("fftshift_nd_4", {"np.float32": OF_WIDTH[n][0], "bk.f32": OF_WIDTH[n][1]}) for n in (8, 16)
    }
    found["scale_real"] = "scale", {}
    for width, (dtype, element) in OF_WIDTH.items():
        for name in ("contiguize_b{}", "write_slice_b{}", "write_slice_b{}_doff"):
            found[name.format(width)] = name.format(4), {"np.float32": dtype, "bk.f32": element}
    return found


def _ranks_of_convolution() -> dict[str, tuple[str, dict[str, str]]]:
    """Programs of 2-d convolution, with other shapes for other ranks; a program is about three directions."""
    shapes = {
        "conv": {
            "(1, 2, 4, 4)": ("(1, 2, 16)", "(1, 2, 2, 2, 4)"), "(1, 2, 3, 3)": ("(1, 2, 3)", "(1, 2, 3, 3, 3)"),
            "(1, 1, 4, 4)": ("(1, 1, 16)", "(1, 1, 2, 2, 4)"),
            "with_padding(1, 1)": ("with_padding(1)", "with_padding(1, 1, 1)"),
            "Descriptor(1, 2, 1, 4, 4, 3, 3,": ("Descriptor(1, 2, 1, 16, 3,", "Descriptor(1, 2, 1, 2, 2, 4, 3, 3, 3,"),
            "Conv2d": ("Conv1d", "Conv3d"), "conv2d": ("conv1d", "conv3d"),
        },
        "conv_transpose": {
            "(1, 1, 2, 2)": ("(1, 1, 4)", "(1, 1, 1, 2, 2)"), "(1, 2, 3, 3)": ("(1, 2, 3)", "(1, 2, 3, 3, 3)"),
            "(1, 2, 5, 5)": ("(1, 2, 9)", "(1, 2, 3, 5, 5)"),
            "with_stride(2, 2)": ("with_stride(2)", "with_stride(2, 2, 2)"),
            "Descriptor(1, 1, 2, 2, 2, 3, 3,": ("Descriptor(1, 1, 2, 4, 3,", "Descriptor(1, 1, 2, 1, 2, 2, 3, 3, 3,"),
            "ConvTranspose2d": ("ConvTranspose1d", "ConvTranspose3d"),
            "conv_transpose2d": ("conv_transpose1d", "conv_transpose3d"),
        },
    }  # fmt: skip
    found = {}
    for op, own in shapes.items():
        for rank in (1, 2, 3):
            changes = {} if rank == 2 else {text: others[rank // 2] for text, others in own.items()}
            for direction in ("fw", "bw_data", "bw_filter"):
                if (rank, direction) != (2, "fw"):
                    found[f"{op}_{rank}d_{direction}"] = f"{op}_2d_fw", changes
    return found


SHARED = _shared()


@dataclasses.dataclass
class Cell:
    title: str
    needs: str  # op of the cell, or ""
    code: str
    output: str = ""


def cells_of(text: str) -> list[Cell]:
    parts = re.split(r"^# %% ([^:\n]*)(?:: (\w+))?\n", text, flags=re.M)[1:]
    return [Cell(title, needs or "", code.strip()) for title, needs, code in zip(*[iter(parts)] * 3)]


def run(cells: list[Cell]) -> None:
    """Runs cells in one namespace and records what each prints."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.code, f"example: {cell.title}", "exec"), namespace)
        cell.output = printed.getvalue().rstrip()


def source_file(family: str, name: str) -> pathlib.Path | None:
    """The file of a family's program, which may lie in a subfolder."""
    return next((EXAMPLES / family).rglob(f"{name}.py"), None)


def sources_of(group: Group) -> list[str]:
    """Files of a group: its own, a shared one, or for elementwise ops that of the form."""
    own = SHARED[group.key][0] if group.key in SHARED else group.key
    if source_file(group.family, own):
        return [own]
    if group.family != "elementwise":
        return []
    names = [f"function_{group.arity}"]
    names += [group.arity] if has_plain_plan(group) else []
    if any("_param_" in op for op in group.ops) and group.arity == "unary":
        names.append("unary_param")
    return names


def has_plain_plan(group: Group) -> bool:
    """Whether the plan without parameters takes the function."""
    if group.arity != "unary":
        return True
    from baracuda.elementwise.unary import UnaryPlan
    from baracuda.kinds import UnaryKind

    return UnaryKind[group.function.upper()] not in UnaryPlan.elsewhere


def adapted(cells: list[Cell], name: str, group: Group, numbers: dict[str, str]) -> list[Cell]:
    """The cells of file `name` for the function of a group."""
    dtype = next(iter(group.dtypes), "")
    replacements = numbers | SHARED.get(group.key, ("", {}))[1]
    form = name.removeprefix("function_")
    if form != name:
        replacements |= calls_of(group, OWN[form])
    if name in OWN:
        replacements |= {f"Kind.{OWN[name].upper()}": f"Kind.{group.function.upper()}"}
    if dtype == "bool":
        replacements |= {"np.float32": "np.bool_", "bk.f32": "bk.bool_"}
    elif dtype.startswith(("i", "u")):
        replacements |= {"np.float32": "np.int32", "bk.f32": "bk.i32"}
    replacements |= backward_operands(group)
    if name == "unary_param":
        replacements["params=(1.0,)"] = f"params={parameters_of(group)}"
    made = []
    for cell in cells:
        needs = cell.needs.replace(f"_{OWN.get(form, '?')}_", f"_{group.function}_")
        if needs and not {needs, needs.replace("_backward", "_param_backward")} & set(group.ops):
            continue
        code = cell.code
        for old, new in replacements.items():
            code = code.replace(old, new)
        made.append(Cell(cell.title, needs, code))
    return made


def calls_of(group: Group, own: str) -> dict[str, str]:
    """Calls of the file's function and its gradient -> calls of the group's function."""
    calls = {}
    for spec in functions_of(group):
        forward = not spec.name.endswith("_backward")
        given = [(CLAMP if own == "clamp" else {}).get(a.name, a.name) for a in spec.arrays]
        required = [a for a in spec.numbers if a.default is REQUIRED]
        given += [f"{kind_of(of_number(spec, a))(PARAMETERS[i])}" for i, a in enumerate(required)]
        arrays = {"gelu": "x", "glu": "x", "mul": "a, b", "eq": "a, b", "clamp": "a, b, c"}[own]
        call = f"bk.{own}({arrays})" if forward else f"bk.{own}_backward(dy, {arrays})"
        calls[call] = f"bk.{spec.name}({', '.join(given)})"
        if not forward and len(spec.outputs) == 1:
            calls[f"print(*{call})"] = f"print({calls[call]})"
    return dict(sorted(calls.items(), key=lambda pair: -len(pair[0])))


CLAMP = {"x": "a", "min": "b", "max": "c"}  # names of its operands in the files


def of_number(spec: Spec, argument: Argument) -> str:
    return next(p.dtype for p in spec.row.params if p.name == argument.number)


def functions_of(group: Group) -> list[Spec]:
    """Python functions with ops on a group's page."""
    return [
        spec for spec in specs().values()
        if any(base(each.row, each.function) == group.key for each in (spec, *spec.others))
    ]  # fmt: skip


def backward_operands(group: Group) -> dict[str, str]:
    """Operand that the gradient reads: the input, the output or nothing."""
    found: dict[str, str] = {}
    for row, function in group.members:
        if "_backward" not in row.pattern or not function:
            continue
        reads = row.reads.get(function)
        if row.saves.get(function) == "y":
            found["BackwardArgs(dy=dy, x=x,"] = "BackwardArgs(dy=dy, y=y,"
        elif row.saves and reads is not None and not any(reads.values()):
            found["UnaryBackwardArgs(dy=dy, x=x,"] = "UnaryBackwardArgs(dy=dy,"
        if row.pattern.startswith("binary") and "a" not in {p.name for p in row.params}:
            found["BackwardArgs(dy=dy, a=a, b=b,"] = "BackwardArgs(dy=dy,"
    return found


def parameters_of(group: Group) -> str:
    """The defaults of the function, as a tuple."""
    row, function = next((row, function) for row, function in group.members if "_param_" in row.pattern)
    names = [p for p in row.params if p.role == "parameter"]
    defaults = row.defaults.get(function, {})
    values = [defaults.get(p.name, kind_of(p.dtype)(PARAMETERS[i])) for i, p in enumerate(names)]
    return f"({', '.join(map(repr, values))}{',' * (len(values) == 1)})"


def kind_of(dtype: str) -> type:
    return int if dtype[0] in "iu" else float


def examples_of(group: Group) -> list[Cell]:
    """The cells of a group's page, run in one namespace."""
    files = {name: source_file(group.family, name) for name in sources_of(group)}
    texts = {name: file.read_text() for name, file in files.items() if file}
    made_by = next((m for m in (code_programs, call_programs) if m.has_programs(functions_of(group))), None)
    if not texts and (functions_of(group) or code_plans.has_programs(group.key)):
        named = [Cell(title, "", code) for title, code in (made_by.programs(functions_of(group)) if made_by else ())]
        named += [Cell(title, "", code) for title, code in code_plans.programs(group.key)]
        if named:
            named[0].code = IMPORTS + named[0].code
            run(named)
            return named
    if not texts:
        alone = [Cell(title, "", code) for title, code in plan_programs.programs(group.key)]
        run(alone)
        return alone
    dtype = next(iter(group.dtypes), "")
    whole = dtype.startswith(("i", "u"))
    tries = (TRUTHS,) if dtype == "bool" else (WHOLE_NUMBERS,) if whole else OTHER_NUMBERS
    made: list[Cell] = []
    for numbers in tries:
        made = [cell for name, text in texts.items() for cell in adapted(cells_of(text), name, group, numbers)]
        for cell in made[1:]:
            cell.code = cell.code.removeprefix(IMPORTS)
        run(made)
        if not any(re.search(r"\b(nan|inf)\b", cell.output) for cell in made):
            break
    if not made:
        raise LookupError(f"{group.key}: tools/docs/examples has no program for it")
    return made

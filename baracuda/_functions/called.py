"""The functions that rows name by `call`: their signatures stand there, and how shapes follow says the row's kind."""

from __future__ import annotations

from collections.abc import Iterator

from baracuda._functions.spec import REQUIRED, Argument, Spec
from baracuda._optable import CallRow, Row, rows

# Kinds of layouts.LAYOUTS, and the parameters by which a row is of one.
_KINDS = {
    "softmax": ("softmax_axis",), "norm": ("norm_axes_mask",), "channels": ("spatial_extent",),
    "reduce_to": ("input_stride",), "trace": ("stride_row",), "reduce": ("reduce_extent", "output_shape"),
    "reduce_backward": ("stride_dx", "stride_dy"), "loss": ("reduction_mode",), "matmul": ("layout", "batch"),
    "linear": ("lda", "bias"),
}  # fmt: skip


def called_specs() -> list[Spec]:
    """The functions of all rows that have some."""
    found: dict[str, list[tuple[str, Row, str, CallRow]]] = {}
    for row in rows():
        if row.pattern.endswith("_strided"):
            continue
        for function, call in ((f, c) for c in row.calls for f in row.functions or ("",)):
            pattern = row.pattern.replace("{F}", function)
            found.setdefault(call.name.replace("{F}", function), []).append((pattern, row, function, call))
    return [_spec(name, variants) for name, variants in found.items()]


def _spec(name: str, variants: list[tuple[str, Row, str, CallRow]]) -> Spec:
    whole = next((variant for variant in variants if variant[3].results), None)
    if whole is None:
        raise LookupError(f"call = {name}: no row has its signature")
    _, row, function, call = whole
    arrays, numbers = list(_arrays(row, call)), []
    for argument in call.arguments:
        if argument.name not in {array.name for array in arrays}:
            default = argument.default[0] if argument.default else REQUIRED
            numbers.append(
                Argument(
                    argument.name,
                    number=argument.source or {"axis": "axes"}.get(argument.name, argument.name),
                    default=default,
                )
            )
    outputs = tuple(Argument(own, source) for own, source in call.results)
    rows_of = sorted(dict.fromkeys(variant[1] for variant in variants), key=lambda other: other is not row)
    return Spec(
        name, tuple(dict.fromkeys(variant[0] for variant in variants)), tuple(rows_of), function, tuple(arrays),
        tuple(sorted(numbers, key=lambda n: n.default is not REQUIRED)), outputs, _kind(row),
        dict(call.fixed), {a.name: a.extents for a in call.arguments if a.extents},
    )  # fmt: skip


def _arrays(row: Row, call: CallRow) -> Iterator[Argument]:
    pointers = {param.name for param in row.pointers}
    for argument in call.arguments:
        if argument.source in pointers or not (argument.source or argument.by_keyword):
            yield Argument(argument.name, argument.source, default=None if argument.default else REQUIRED)


def _kind(row: Row) -> str:
    names = {param.name for param in row.params}
    found = next((kind for kind, known in _KINDS.items() if names.issuperset(known)), None)
    if found is None:
        raise LookupError(f"[{row.name}]: no layout of baracuda/_functions has such parameters")
    return found

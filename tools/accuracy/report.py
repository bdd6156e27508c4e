# SPDX-License-Identifier: Apache-2.0
"""Results as JSON, and the README generated from them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tools.accuracy.functions import DTYPES, Function
from tools.accuracy.ulp import Worst

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
README = HERE / "README.md"

_HEAD = """# Accuracy

Errors in ulp of the storage dtype against the true value: 0.5 is a correctly rounded result. Written by
`python -m tools.accuracy table` from `results/`; measured by

```sh
python -m tools.accuracy --backend cpu --json tools/accuracy/results/cpu.json
python -m tools.accuracy --backend cuda --json tools/accuracy/results/cuda.json   # needs PyTorch for every f32
python -m tools.accuracy ops --backend cpu --json tools/accuracy/results/ops_cpu.json
```

Elementwise functions: f16 and bf16: all 65,536 arguments. f32: on the GPU all 2^32, each 64th where marked * and for
PyTorch; dense samples on the CPU. f64: dense samples, against 80-bit floats (`oracle`). Gradients are taken for dy =
1 and for other dy. "special" counts NaN or infinity where the true value has none, and the reverse. Near a zero of
lgamma or digamma at an irrational argument every formula in the working precision loses relative accuracy; such rows
show how much. The mean takes an error of more than 64 ulp as 64.
"""


def row(function: Function, dtype: str, every: bool, ours: Worst, theirs: Worst | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "function": function.label,
        "kind": function.kind,
        "dtype": dtype,
        "inputs": ours.count,
        "every": every,
        **_fields(ours),
    }
    if theirs is not None:
        found["torch"] = _fields(theirs)
    return found


def _fields(worst: Worst) -> dict[str, Any]:
    # JSON has no NaN and no infinity
    def text(point: dict[str, float] | None) -> dict[str, str] | None:
        return {k: repr(v) for k, v in point.items()} if point else None

    return {
        "max_ulp": worst.max_ulp,
        "mean_ulp": worst.mean_ulp,
        "worst": text(worst.at),
        "special": worst.special,
        "special_at": text(worst.example),
    }


def name(r: dict[str, Any]) -> str:
    return f"{r['function']}{' backward' if r['kind'] == 'backward' else ''}"


def lines(rows: list[dict[str, Any]]) -> str:
    """Rows for a terminal, worst first, with the arguments of the worst result."""
    out = []
    for r in sorted(rows, key=lambda r: (-(r["special"] > 0), -r["max_ulp"])):
        at = " ".join(f"{k}={v}" for k, v in r["worst"].items())
        peer = f"  torch {number(r['torch']['max_ulp'])}" if "torch" in r else ""
        out.append(f"{name(r):24} {r['dtype']:5} max {number(r['max_ulp']):>9} mean {r['mean_ulp']:.4f}{peer}  {at}")
        if r["special"]:
            at = " ".join(f"{k}={v}" for k, v in r["special_at"].items())
            out.append(f"    {r['special']} NaN or infinity amiss: {at}")
    return "\n".join(out)


_OPS = """
## Other ops

Problems of tools/bench with normal random numbers: the largest error of sampled results, relative to the largest value,
in units of 2^-23 (f32), 2^-10 (f16), 2^-7 (bf16). Sums have up to 2^24 summands. Ops that copy elements are exact and
are left out. PyTorch has no entry if it recomputes our op's inputs, has another layout, or lacks the op.
"""


def ops_lines(rows: list[dict[str, Any]]) -> str:
    """Rows for a terminal, worst first."""
    found = sorted(rows, key=lambda r: (not r["wrong"], -(r["error"] or 0)))
    return "\n".join(
        f"{r['name']:48} {r['dtype']:5} {_units(r['error']):>9} torch {_units(r['torch']):>9}  {r['wrong']}"
        for r in found
    )


def _units(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:.2g}"


def _ops_table(rows: list[dict[str, Any]]) -> str:
    dtypes = [t for t in DTYPES if any(r["dtype"] == t for r in rows)]
    out = ["| problem | backend | " + " | ".join(f"{t} | PyTorch" for t in dtypes) + " |"]
    out.append("|---|---|" + "---|" * (2 * len(dtypes)))
    by_key: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for r in rows:
        by_key.setdefault((r["name"], r["backend"]), {})[r["dtype"]] = r
    for key, found in by_key.items():
        cells = [_units(found[t][of]) if t in found else "" for t in dtypes for of in ("error", "torch")]
        out.append("| " + " | ".join((*key, *cells)) + " |")
    return "\n".join(out)


def number(value: float) -> str:
    return f"{value:.3f}" if value < 100 else f"{value:.2g}"


def write_json(path: str, document: dict[str, Any]) -> None:
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({k: v for k, v in document.items() if k != "rows"}, indent=1)[:-2]
    body = ",\n".join("  " + json.dumps(r) for r in document["rows"])
    target.write_text(f'{head},\n "rows": [\n{body}\n ]\n}}\n')


def write_readme() -> None:
    documents = [json.loads(p.read_text()) for p in sorted(RESULTS.glob("c*.json"))]
    of_ops = [json.loads(p.read_text()) for p in sorted(RESULTS.glob("ops_*.json"))]
    parts = [_HEAD]
    for d in (*documents, *of_ops):
        facts = d["environment"]
        versions = f"commit {facts['library'].get('commit')}, {facts['libc']}, NumPy {facts['numpy']}"
        if path := facts["library"].get("isa"):
            versions = f"path {path}, {versions}"
        parts.append(
            f"\n{facts['backend']}{', other ops' * (d in of_ops)}: {facts['device']}; {versions}, "
            f"PyTorch {facts['torch']}; {facts['date'][:10]}."
        )
    rows = [{**r, "backend": d["environment"]["backend"]} for d in documents for r in d["rows"]]
    parts.append("\n## Worst rows\n\n" + _worst(rows))
    for kind, title in (("unary", "Functions"), ("backward", "Gradients"), ("binary", "Functions of two operands")):
        parts.append(f"\n## {title}\n\n" + _table([r for r in rows if r["kind"] == kind]))
    rows = [{**r, "backend": d["environment"]["backend"]} for d in of_ops for r in d["rows"]]
    if rows:
        parts.append(_OPS + "\n" + _ops_table(rows))
    README.write_text("\n".join(parts) + "\n")


def _worst(rows: list[dict[str, Any]], most: int = 30) -> str:
    """Relative to what the dtype is allowed: 16 bits are measured from 0.5 on."""

    def excess(r: dict[str, Any]) -> float:
        return (r["max_ulp"] - 0.5) * (32 if r["dtype"] in ("f16", "bf16") else 0.5)

    chosen = sorted(rows, key=lambda r: (-r["special"], -excess(r)))[:most]
    out = ["| function | dtype | backend | max ulp | PyTorch | special | where |", "|---|---|---|---|---|---|---|"]
    for r in chosen:
        peer = number(r["torch"]["max_ulp"]) if "torch" in r else ""
        at = r["special_at"] if r["special"] else r["worst"]
        point = ", ".join(f"{k} = {v}" for k, v in at.items())
        cells = [name(r), r["dtype"], r["backend"], number(r["max_ulp"]), peer, str(r["special"] or ""), point]
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def _table(rows: list[dict[str, Any]]) -> str:
    """A row per function and backend: max (mean), PyTorch's max, for each dtype."""
    head = "| function | backend | " + " | ".join(f"{t} | mean | PyTorch" for t in DTYPES) + " |"
    out = [head, "|---|---|" + "---|" * (3 * len(DTYPES))]
    by_key: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for r in rows:
        by_key.setdefault((r["function"], r["backend"]), {})[r["dtype"]] = r
    for (function, backend), found in by_key.items():
        cells = []
        for t in DTYPES:
            r = found.get(t)
            if r is None:
                cells += ["", "", ""]
                continue
            special = f" ({r['special']} special)" if r["special"] else ""
            sampled = "*" if (backend, t) == ("cuda", "f32") and r["kind"] != "binary" and not r["every"] else ""
            peer = number(r["torch"]["max_ulp"]) if "torch" in r else ""
            if peer and r["torch"]["special"]:
                peer += f" ({r['torch']['special']} special)"
            cells += [number(r["max_ulp"]) + sampled + special, f"{r['mean_ulp']:.3f}", peer]
        out.append(f"| {function} | {backend} | {' | '.join(cells)} |")
    return "\n".join(out)

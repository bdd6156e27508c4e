"""Writes a result file as the README's table: python -m tools.bench.markdown FILE"""

import json
import pathlib
import sys


def table(result: dict) -> str:
    """One line a problem; f32 then bf16, each as the fraction of a device copy and the ratio to PyTorch."""
    rows: dict[str, dict[str, dict]] = {}
    for row in result["rows"]:
        rows.setdefault(row["name"], {})[row["dtype"]] = row
    lines = ["| problem | f32: of copy | x PyTorch | bf16: of copy | x PyTorch |", "|---|---|---|---|---|"]
    for name, by_dtype in rows.items():
        cells = []
        for dtype in ("f32", "bf16"):
            row = by_dtype.get(dtype, {})
            cells.append(f"{row['of_copy']:.2f}" if row.get("of_copy") else "")
            cells.append(f"{row['times_peer']:.2f}" if row.get("times_peer") else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(json.loads(pathlib.Path(sys.argv[1]).read_text())))

"""What the README shows is run."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from baracuda._optable import rows
from test_c_abi import compile_and_run

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def test_python_example(library):
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line]) <= 20
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "deterministic=True" in result.stdout


def test_c_example(cpu_library, tmp_path):
    (code,) = blocks("c")
    source = tmp_path / "example.c"
    source.write_text(code)
    assert compile_and_run("c", source, cpu_library, tmp_path).split() == ["4", "6", "0", "0", "21", "24", "11", "12"]


@pytest.mark.parametrize("pattern", sorted({row.pattern for row in rows()}))
def test_op_table(pattern):
    lines = [line for line in README.splitlines() if line.startswith("|") and f"`{pattern}`" in line]
    assert len(lines) == 1, f"{pattern} is in {len(lines)} rows of the README's table"
    named = [row for row in rows() if row.pattern == pattern]
    dtypes = lines[0].split("|")[2].split()
    assert dtypes == list(dict.fromkeys(dtype for row in named for dtype in row.slots["T"]))
    assert ("with a workspace" in lines[0]) == (named[0].deterministic == "workspace")


def test_the_row_in_the_readme_is_the_row_of_the_table():
    (row,) = re.findall(r"```ini\n(.*?)```", README, flags=re.S)
    lines = [line.strip() for line in row.strip().splitlines()]
    table = [line.strip() for line in (ROOT / "native/elementwise/lerp.abi").read_text().splitlines()]
    start = table.index(lines[0])
    assert table[start : start + len(lines)] == lines

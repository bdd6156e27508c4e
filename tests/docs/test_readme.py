# SPDX-License-Identifier: Apache-2.0
"""The README: its programs run, its links resolve, its chart is that of the results."""

import re
import subprocess
import sys

import pytest

from harness import ROOT
from harness.child import child_environment
from harness.compilers import compile_and_run
from harness.readme import README, blocks
from tools.bench import chart

DOORS = {name: (ROOT / name).read_text() for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}


def test_python_example(library):
    (code,) = blocks("python")
    environment = child_environment()
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "(300, 64) (64,)\n"


def test_c_example(cpu_library, tmp_path):
    (code,) = blocks("c")
    source = tmp_path / "example.c"
    source.write_text(code)
    assert compile_and_run("c", source, cpu_library, tmp_path).split() == ["0", "0", "1", "2"]


def test_the_readme_is_short():
    assert len(README.encode()) <= 10_000


@pytest.mark.parametrize("name", DOORS)
def test_links(name):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", DOORS[name]):
        assert target.startswith("https://") or (ROOT / target).exists(), f"{name} links to {target}"


@pytest.mark.parametrize("name", DOORS)
def test_files_that_are_named_are_there(name):
    """Names with a placeholder, such as <family>, are of files that do not exist yet."""
    folders = "native|baracuda|tests|tools|include"
    for path in re.findall(rf"`((?:{folders})/[\w./-]+)`", DOORS[name]):
        assert (ROOT / path).exists(), f"{name} names {path}"


def test_the_chart_is_that_of_the_results():
    assert chart.CHART.read_text() == chart.made(), "python -m tools.bench.chart draws it anew"


SHOWN = re.findall(
    r"`(native/[\w/]+\.\w+)`(?:(?!`native/).)*?```(?:ini|cpp)\n(.*?)```", DOORS["CONTRIBUTING.md"], flags=re.S
)


@pytest.mark.parametrize(("path", "text"), SHOWN, ids=[path for path, _ in SHOWN])
def test_what_is_shown_of_a_file_stands_there(path, text):
    lines = [line.strip() for line in text.strip().splitlines()]
    file = [line.strip() for line in (ROOT / path).read_text().splitlines()]
    starts = [at for at, line in enumerate(file) if line == lines[0]]
    assert any(file[at : at + len(lines)] == lines for at in starts), f"{path} has no {lines[0]!r} with what follows it"


def test_an_op_is_shown():
    assert [path.rpartition(".")[2] for path, _ in SHOWN] == ["abi", "h", "abi"]

# SPDX-License-Identifier: Apache-2.0
"""Type checkers accept programs that use the package correctly: mypy --strict, and pyright as basedpyright packs it."""

import pathlib
import re
import subprocess
import sys

import pytest

from harness import ROOT
from harness.child import child_environment
from harness.readme import blocks

HEAD = """import numpy as np

import baracuda as bk

x = np.ones(3, np.float32)
y = np.empty_like(x)
of = bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, shape=(3,), element=bk.f32)
plan = bk.UnaryPlan.select(None, of)
args = bk.UnaryArgs(x=x, y=y)
"""
RIGHT = """plan.run(None, bk.workspace(plan, args), args)
launch = plan.bind(None, None, args)
launch()
bk.add(x, 2.5, out=y)
bk.leaky_relu(x, negative_slope=0.1)
da, db = bk.mul_backward(x, x, y, needs=(True, False))
with bk.checked(nan="raise"):
    bk.set_allocator(None)
again: bk.Graph = bk.graph(lambda: bk.neg(x))
view: bk.TensorRef = bk.tensor(x)
print(view.shape, bk.download(view).sum(), plan.precision_guarantee.deterministic, bk.f32.token)
bk.UnaryParamDescriptor(kind=bk.UnaryKind.ELU, shape=[4], element=np.float32, params=0.5)
bk.UnaryParamDescriptor(kind=bk.UnaryKind.HARDTANH, shape=(4,), element="f32", params=[0, 1])
bk.FillDescriptor(3, 1.0, element=np.dtype(np.float32))
print(of.shape[0], of.numel, plan.descriptor.kind)
sizes, vectors = bk.linalg.eigh(x, UPLO="U")
print(sizes, vectors, bk.linalg.svd(x, full_matrices=False).Vh, bk.linalg.cholesky_ex(x).info)
try:
    bk.neg(x)
except bk.CheckError as error:
    print(error.operand, error.position)
"""
WRONG = {
    "bk.geluu(x)": "attr-defined",
    "bk.UnaryPlam": "attr-defined",
    "bk.UnaryKind.GELUU": "attr-defined",
    "bk.gelu()": "call-arg",
    "bk.gelu(x, alpha=1.0)": "call-arg",
    "bk.UnaryArgs(x=x)": "call-arg",
    "bk.UnaryDescriptor(kindd=bk.UnaryKind.GELU, shape=(3,), element=bk.f32)": "call-arg",
    "plan.run(None, args)": "call-arg",
    "plan.run(None, None, of)": "arg-type",
    "plan.run(None, None, bk.BinaryArgs(a=x, b=x, y=y))": "arg-type",
    "bk.BinaryPlan.select(None, of)": "arg-type",
    "bk.UnaryBackwardPlan.select(None, of)": "arg-type",
    "bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, shape=(3,))": "call-arg",
    "bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, element=bk.f32)": "call-arg",
    "bk.UnaryDescriptor(shape=(3,), element=bk.f32)": "call-arg",
    "bk.UnaryDescriptor(kind=bk.BinaryKind.ADD, shape=(3,), element=bk.f32)": "arg-type",
    "bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, shape='3', element=bk.f32)": "arg-type",
    "bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, shape=(3,), element=3)": "arg-type",
    "bk.TensorRef('x', (3,), bk.f32)": "arg-type",
    "bk.mul_backward(x, x, y, needs=3)": "arg-type",
    "bk.tensor(x).shap": "attr-defined",
    "bk.linalg.sdv(x)": "attr-defined",
    "bk.linalg.qr(x, mod='r')": "call-arg",
    "bk.linalg.qr(x, mode=3)": "arg-type",
    "bk.linalg.svd(x).V": "attr-defined",
}


CHECKERS = ("mypy", "basedpyright")
EXAMPLES = {path.stem: path.read_text() for path in sorted((ROOT / "tests" / "examples" / "python").glob("*.py"))}
EXAMPLES |= {f"readme_{i}": code for i, code in enumerate(blocks("python"), 1)}
PLANS = (ROOT / "tools" / "docs" / "pages" / "concepts" / "plans.md").read_text()
EXAMPLES["plans"] = next(code for code in blocks("python", PLANS) if "BinaryBackwardPlan" in code)


def checked(checker, folder, programs):
    """The lines with errors of each program, and the codes of mypy's errors."""
    paths = [folder / f"{name}.py" for name in programs]
    for path, text in zip(paths, programs.values()):
        path.write_text(text)
    options = {"mypy": ["--strict", "--follow-imports=silent", f"--cache-dir={folder / 'cache'}"],
               "basedpyright": ["--level", "error", "--pythonpath", sys.executable]}  # fmt: skip
    command = [sys.executable, "-m", checker, *options[checker], *map(str, paths)]
    variables = {"mypy": "MYPYPATH", "basedpyright": "PYTHONPATH"}
    environment = child_environment(**{variables[checker]: str(ROOT)})
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = {name: {} for name in programs}
    for line in result.stdout.splitlines():
        if match := re.match(r"\s*(.+):(\d+):.*error: .*?(?:\[([\w-]+)\])?$", line):
            name = pathlib.Path(match[1]).stem
            found[name].setdefault(programs[name].splitlines()[int(match[2]) - 1], set()).add(match[3])
    assert any(found.values()) or result.returncode == 0, result.stdout + result.stderr
    return found


@pytest.fixture(scope="module", params=CHECKERS)
def said(request, tmp_path_factory):
    text = HEAD + RIGHT + "\n".join(WRONG) + "\n"
    return checked(request.param, tmp_path_factory.mktemp("types"), {"program": text})["program"]


def test_what_is_right_is_no_error(said):
    assert {line: codes for line, codes in said.items() if line not in WRONG} == {}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_an_error(said, line):
    assert line in said and said[line] & {WRONG[line], None}


@pytest.mark.parametrize("checker", CHECKERS)
def test_examples(checker, tmp_path):
    assert checked(checker, tmp_path, EXAMPLES) == {name: {} for name in EXAMPLES}

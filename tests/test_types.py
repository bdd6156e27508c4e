"""What a type checker says of programs that use the package: mypy --strict, of the program alone."""

import subprocess
import sys

import pytest

from harness import ROOT
from harness.child import child_environment

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
    "bk.TensorRef('x', (3,), bk.f32)": "arg-type",
    "bk.mul_backward(x, x, y, needs=3)": "arg-type",
    "bk.tensor(x).shap": "attr-defined",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Lines of the program with all that is wrong in it, and the codes of their errors."""
    path = tmp_path_factory.mktemp("types") / "program.py"
    path.write_text(HEAD + RIGHT + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    command += [f"--cache-dir={path.parent / 'cache'}", str(path)]
    environment = child_environment(MYPYPATH=str(ROOT))
    result = subprocess.run(command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False)
    assert not result.stderr
    lines, found = path.read_text().splitlines(), {}
    for line in result.stdout.splitlines():
        if ": error: " in line:
            found.setdefault(lines[int(line.split(":")[1]) - 1], set()).add(line.rpartition("[")[2].rstrip("]"))
    return found


def test_what_is_right_is_no_error(said):
    assert {line: codes for line, codes in said.items() if line not in WRONG} == {}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_an_error(said, line):
    assert WRONG[line] in said.get(line, ())

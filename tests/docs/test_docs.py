# SPDX-License-Identifier: Apache-2.0
"""The documentation: every program of every page runs and prints what the page says, every row has a page, every link
resolves. The pages are written as `make docs` does, without the site generator."""

import html
import importlib.util
import itertools
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

import baracuda as bk
from baracuda._cli.describe import base
from baracuda._functions.spec import specs
from harness import OPS, ROOT, ROWS
from harness.child import child_environment
from harness.compilers import compile_and_run
from tools.docs.blocks import blocks_of, needs_of
from tools.docs.formula import GREEK, typeset
from tools.docs.groups import groups
from tools.docs.site import PAGES, included

pytestmark = pytest.mark.unsanitized("the programs of the pages make calls that other tests make")
TEXTS = {str(path.relative_to(PAGES)): path.read_text() for path in sorted(PAGES.rglob("*.md"))}
# Runs the blocks from standard input in one namespace, and answers with the output of each.
RUNNER = """
import contextlib, io, json, sys
namespace, printed = {"__name__": "__main__"}, []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "<page>", "exec"), namespace)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def has(needs: str) -> bool:
    """Whether the programs of a page can run here."""
    if needs == "cuda":
        return bk.default_library().backend == "cuda"
    return not needs or importlib.util.find_spec(needs) is not None


def python_of(page):
    return [block for block in blocks_of(TEXTS[page]) if block.language == "python"]


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if python_of(page) and has(needs_of(text))])
def test_programs_of_a_page(page, cpu_library):
    on_gpu = needs_of(TEXTS[page]) == "cuda"
    environment = child_environment() if on_gpu else child_environment(BARACUDA_LIB=str(cpu_library))
    codes = json.dumps([block.code for block in python_of(page)])
    result = subprocess.run(
        [sys.executable, "-c", RUNNER], input=codes, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    for block, printed in zip(python_of(page), json.loads(result.stdout)):
        assert printed == block.output, block.code


@pytest.mark.parametrize("page", [page for page in TEXTS if python_of(page)])
def test_programs_are_python(page):
    """Programs compile, also on pages that need what is not installed."""
    for block in python_of(page):
        compile(block.code, page, "exec")


@pytest.mark.parametrize(("page", "language"), [("how-to/cpp-runtime.md", "cpp"), ("how-to/languages.md", "c")])
def test_compiled_programs(page, language, cpu_library, tmp_path):
    (block,) = [block for block in blocks_of(TEXTS[page]) if block.language == language]
    source = tmp_path / f"example.{language}"
    source.write_text(block.code)
    assert compile_and_run(language, source, cpu_library, tmp_path) == block.output


@pytest.fixture(scope="module")
def site(cpu_library, tmp_path_factory) -> pathlib.Path:
    """The sources of the whole site. Writing them runs the examples of all ops and the calls that must fail."""
    target = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "tools.docs", str(target)]
    environment = child_environment(BARACUDA_LIB=str(cpu_library))
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target / "pages"


def test_every_row_has_a_page(site):
    found = groups()
    for row in ROWS.values():
        for function in row.functions or ("",):
            path = site / found[base(row, function)].path
            assert path.exists(), f"[{row.name}] of {row.table}.abi has no page {path.name}"
    texts = {key: (site / group.path).read_text() for key, group in found.items()}
    for op, (row, slots) in OPS.items():
        key = base(row, slots.get("F", ""))
        assert f"`{op}`" in texts[key] or f"baracuda_kernels_{op}_run" in texts[key], f"{op} is not on the page {key}"


PLANS_WITHOUT_PROGRAMS = (
    "baracuda.gemm.dense",
    "baracuda.gemm.grouped",
    "baracuda.gemm.narrow",
    "baracuda.gemm.scaled",
    "baracuda.loss",
    "baracuda.norm",
    "baracuda.quantize.linear_plans",
    "baracuda.reduce",
    "baracuda.scan",
    "baracuda.softmaxes",
)  # pages whose functions have programs


def test_every_page_of_an_op_is_whole(site):
    for group in groups().values():
        text = (site / group.path).read_text()
        for heading in ("## Example", "## Python", "## C", "## Errors", "## Source"):
            assert f"\n{heading}\n" in text, f"{group.path} has no {heading}"
        programs = [block for block in blocks_of(text) if block.language == "python"]
        assert programs, f"{group.path} has no program"
        assert all(block.output.strip() for block in programs), f"{group.path}: an example prints nothing"
        assert not re.search(r"\b(nan|inf)\b", " ".join(block.output for block in programs)), group.path


def test_every_plan_is_on_a_page(site):
    text = "\n".join(path.read_text() for path in (site / "ops").rglob("*.md"))
    for name in bk.__all__:
        module = bk.__dict__.get(name, getattr(bk, name, None)).__module__ if name.endswith("Plan") else ""
        if name.endswith("Plan") and name != "Plan" and not module.startswith(PLANS_WITHOUT_PROGRAMS):
            assert f"baracuda.{name}.select(" in text, f"no example of tools/docs/examples is about {name}"


def test_every_function_is_on_a_page(site):
    text = "\n".join(path.read_text() for path in (site / "ops").rglob("*.md"))
    for name in specs():
        assert f"\nbaracuda.{name}(" in text, name


def test_the_index_has_every_page(site):
    text = (site / "ops" / "index.md").read_text()
    for group in groups().values():
        assert text.count(f"({group.path.removeprefix('ops/')})") == 1, group.path


def anchors(text):
    headings = re.findall(r"^#+ (.*?)(?: \{.*\})?$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_op_tables_name_every_row(site):
    text = (site / "ops" / "tables.md").read_text()
    for row in ROWS.values():
        assert f"`{row.pattern.removesuffix('_strided')}`" in text or f"`{row.pattern}`" in text, row.name


def test_links(site):
    texts = {path: path.read_text() for path in site.rglob("*") if path.suffix in (".md", ".svg")}
    for path, text in texts.items():
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)]*)?\)", re.sub(r"`[^`]*`", "", text)):
            page = (path.parent / target).resolve() if target else path
            assert page in texts, f"{path.relative_to(site)} links to {target}"
            assert not anchor or anchor[1:] in anchors(texts[page]), f"{path.relative_to(site)}: {target}{anchor}"


def test_navigation(site):
    """The navigation has every page once, and no other."""
    text = (site.parent / "mkdocs.yml").read_text()
    named = re.findall(r"([\w/-]+\.md)$", text, flags=re.M)
    assert sorted(named) == sorted(str(path.relative_to(site)) for path in site.rglob("*.md"))


def test_a_lost_marker_is_named():
    with pytest.raises(LookupError, match="no line '## Nowhere'"):
        included("{{ CONTRIBUTING.md from ## Nowhere to ## Words }}")


DESCRIPTIONS = sorted(
    set(itertools.chain.from_iterable([row.doc, *row.functions.values()] for row in ROWS.values())), key=len
)


def test_formulas_keep_what_the_table_says():
    """Formulas are well formed, and have every letter and digit of the table in its order."""
    letters = {letter: name for name, letter in GREEK.items()}
    for text in DESCRIPTIONS:
        markup = typeset(text)
        xml.etree.ElementTree.fromstring(f"<p>{markup}</p>")
        shown = html.unescape(re.sub(r"<[^>]*>", "", markup))
        shown = "".join(letters.get(c, c) for c in shown)
        plain = [re.sub(r"[^A-Za-z0-9]", "", t.replace("sqrt(", "(")) for t in (text, shown)]
        assert plain[0] == plain[1], markup


def name(text):
    return "".join(f"<mi>{c}</mi>" for c in text) if len(text) == 1 else f"<mrow>{''.join(map(name, text))}</mrow>"


def round_(sign):
    return f'<mo stretchy="false">{sign}</mo>'


def test_formulas():
    space = '<mspace width="0.2em"/>'
    for text, markup in {
        "x^2 dy": f"<msup><mrow>{name('x')}</mrow><mrow><mn>2</mn></mrow></msup>{space}{name('dy')}",
        "-y dy / (2 y)": f"<mo>&#8722;</mo><mfrac><mrow>{name('y')}{space}{name('dy')}</mrow>"
        f"<mrow><mn>2</mn>{space}{name('y')}</mrow></mfrac>",
        "sqrt(x)": f"<msqrt><mrow>{name('x')}</mrow></msqrt>",
        "f(x) y": f"<mrow>{name('f')}<mo>&#8289;</mo><mrow>{round_('&#40;')}{name('x')}{round_('&#41;')}</mrow>"
        f"</mrow>{space}{name('y')}",
    }.items():
        assert typeset(text) == f"<math>{markup}</math>"
    assert typeset("a quotient of a and b").count("<math>") == 2  # not the article
    assert "msup" not in typeset("a ^ b")  # C's operator
    assert "<math>" not in typeset("the other modes do not read it")
    assert "<mo>&#41;</mo>" not in typeset("e / c (p[c] (sum of w) - w[c])")  # it grows with the fraction

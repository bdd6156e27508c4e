# SPDX-License-Identifier: Apache-2.0
"""The sources of the site: pages of pages/, the page of each group, two indices of ops, and mkdocs' configuration."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Callable

from tools.docs import ROOT
from tools.docs.determinism import MARK, determinism
from tools.docs.examples import examples_of
from tools.docs.formula import typeset
from tools.docs.groups import TITLES, Group, groups, short
from tools.docs.op_tables import op_tables
from tools.docs.page import page
from tools.docs.refusals import refusals

HERE = ROOT / "tools" / "docs"
PAGES = HERE / "pages"
FAMILIES = "Ops"
INCLUDE = re.compile(r"^\{\{ (\S+) from (.*?) to (.*?) \}\}$", re.M)
REPOSITORY = re.compile(r"\[([^\]]+)\]\(repo:([^)]*)\)")


def write(target: pathlib.Path, say: Callable[[str], None] = lambda line: None) -> dict[str, Group]:
    """Writes everything below `target`, which is emptied first; returns the groups."""
    import baracuda as bk

    library = bk.default_library()
    shutil.rmtree(target, ignore_errors=True)
    sources = target / "pages"
    for path in sorted(PAGES.rglob("*")):
        if path.is_file():
            page_file = sources / path.relative_to(PAGES)
            page_file.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                page_file.write_text(linked(included(made(path.read_text()))))
            else:
                shutil.copyfile(path, page_file)
    found = groups()
    for group in found.values():
        page_file = sources / group.path
        page_file.parent.mkdir(parents=True, exist_ok=True)
        page_file.write_text(linked(page(group, examples_of(group), refusals(group, library))))
    (sources / "ops" / "index.md").write_text(index(found))
    (sources / "ops" / "tables.md").write_text(linked(op_tables()))
    (target / "mkdocs.yml").write_text(configuration(found))
    say(f"{len(found)} pages of ops, {len(list(PAGES.rglob('*.md')))} by hand, in {target}")
    return found


def made(text: str) -> str:
    """Replaces marks by generated tables."""
    return text.replace(MARK, determinism()) if MARK in text else text


def included(text: str) -> str:
    """Replaces `{{ FILE from A to B }}` by the lines of that file between the lines A and B."""

    def part(m: re.Match[str]) -> str:
        lines = (ROOT / m[1]).read_text().splitlines()
        try:
            start = lines.index(m[2])
            end = lines.index(m[3], start + 1)
        except ValueError:
            raise LookupError(f"{m[1]} has no line {m[2]!r} with {m[3]!r} behind it") from None
        body = "\n".join(deeper(lines[start + 1 : end])).strip()
        return re.sub(r"\]\((?!http|#|repo:)([^)]+)\)", r"](repo:\1)", body)

    return INCLUDE.sub(part, text)


def deeper(lines: list[str]) -> list[str]:
    """Indents the content of numbered items by 4 columns, as mkdocs requires, instead of GitHub's 3."""
    made, in_code = [], False
    for line in lines:
        in_code ^= line.startswith("```")
        made.append(f" {line}" if line.startswith("   ") and not in_code else line)
    return made


def linked(text: str) -> str:
    """Resolves links into the repository, `repo:path`, against BARACUDA_REPOSITORY; without it only the path stays."""
    base = os.environ.get("BARACUDA_REPOSITORY", "").rstrip("/")

    def link(m: re.Match[str]) -> str:
        if not (ROOT / m[2]).exists():
            raise FileNotFoundError(f"link to {m[2]}, which is not in the repository")
        if base:
            return f"[{m[1]}]({base}/{m[2]})"
        return f"`{m[2]}`" if m[1] == m[2] else f"{m[1]} (`{m[2]}`)"

    return REPOSITORY.sub(link, text)


def index(found: dict[str, Group]) -> str:
    """All pages, by family, a line each."""
    count = sum(len(group.ops) for group in found.values())
    parts = [
        "# Ops\n",
        f"{len(found)} pages have {count:,} ops, all forms, dtypes and gradients of a function together. The same by "
        "their names in C: [op tables](tables.md).\n",
    ]
    for section, title in TITLES.items():
        inside = [group for group in found.values() if group.section == section]
        if not inside:
            continue
        lines = ["| op | computes | dtypes | |", "| --- | --- | --- | --- |"]
        for group in inside:
            row, function = group.members[0]
            said = typeset(row.functions[function] if function else row.doc.split(". ")[0].rstrip("."))
            gradient = "gradient" if any("_backward" in row.pattern for row, _ in group.members) else ""
            link = f"[{group.function}]({group.path.removeprefix('ops/')})"
            lines.append(f"| {link} | {said} | {short(group.dtypes)} | {gradient} |")
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def configuration(found: dict[str, Group]) -> str:
    """mkdocs.yml of tools/docs, with its last line replaced by the pages of ops."""
    lines = ["  - Ops:", "      - ops/index.md", "      - ops/tables.md"]
    for section, title in TITLES.items():
        inside = [group for group in found.values() if group.section == section]
        if inside:
            lines.append(f"      - {title}:")
            lines += [f"          - {group.function}: {group.path}" for group in inside]
    text = (HERE / "mkdocs.yml").read_text()
    assert "  - Ops\n" in text
    return text.replace("  - Ops\n", "\n".join(lines) + "\n")

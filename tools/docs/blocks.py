# SPDX-License-Identifier: Apache-2.0
"""Code blocks of a page."""

from __future__ import annotations

import dataclasses
import re

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclasses.dataclass
class Block:
    """A program and its expected output: the adjacent block of language "text", if any."""

    language: str
    code: str
    output: str


def blocks_of(text: str) -> list[Block]:
    found = list(FENCE.finditer(text))
    blocks = []
    for m, after in zip(found, [*found[1:], None]):
        is_output = after is not None and after[1] == "text" and not text[m.end() : after.start()].strip()
        if m[1] != "text":
            blocks.append(Block(m[1], m[2], after[2] if after is not None and is_output else ""))
    return blocks


def needs_of(text: str) -> str:
    """Requirement of a page's programs besides NumPy, from its front matter: "torch", "cuda" or nothing."""
    m = re.match(r"---\nneeds: (\w+)\n---\n", text)
    return m[1] if m else ""

# SPDX-License-Identifier: Apache-2.0
"""The programs of the README."""

import re

from .launch import ROOT

README = (ROOT / "README.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)

# SPDX-License-Identifier: Apache-2.0
"""The documentation site: pages written by hand, one page a function made from the op tables, and their examples."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The generators' modules read the op tables, and the tests' modules have the calls that must fail.
for folder in ("tests", "tools"):
    if str(ROOT / folder) not in sys.path:
        sys.path.insert(0, str(ROOT / folder))

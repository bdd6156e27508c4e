# SPDX-License-Identifier: Apache-2.0
"""Writes the sources of the site: python -m tools.docs DIR"""

import pathlib
import sys

from tools.docs.site import write

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(pathlib.Path(sys.argv[1]), print)

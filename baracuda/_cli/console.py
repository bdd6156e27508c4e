# SPDX-License-Identifier: Apache-2.0
"""Exit status of the command-line programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def exit_status(main: Callable[[], int]) -> int:
    """The status of `main`, or 1 if the reader of its output closes the pipe early, like `head`."""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()  # flushed here, since an error at exit cannot be caught
    except BrokenPipeError:  # Python flushes stdout once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1

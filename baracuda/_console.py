"""What programs of this package do on their way out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def exit_status(main: Callable[[], int]) -> int:
    """The status of `main`, or 1 if whoever reads its output leaves early, as `head` does."""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()  # here, where a failure can still be caught, and not at exit
    except BrokenPipeError:  # Python flushes stdout once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1

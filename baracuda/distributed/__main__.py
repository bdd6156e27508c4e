# SPDX-License-Identifier: Apache-2.0
"""python -m baracuda.distributed --ranks N program"""

import sys

from baracuda.distributed.launch import main

if __name__ == "__main__":
    sys.exit(main())

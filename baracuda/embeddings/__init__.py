# SPDX-License-Identifier: Apache-2.0
"""Embeddings: rows of a table by index, and bags of them.

The caller zeroes gradients of tables. indices and offsets are i32 or i64 each.
"""

from baracuda.embeddings.bags import *  # noqa: F403
from baracuda.embeddings.rows import *  # noqa: F403

# SPDX-License-Identifier: Apache-2.0
"""Top-k and order statistics."""

# SPDX-License-Identifier: Apache-2.0
"""Sources from which harness.fuzz draws calls."""

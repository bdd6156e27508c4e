# SPDX-License-Identifier: Apache-2.0
"""Norms, fused and wide forms of them."""

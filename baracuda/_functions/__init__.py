# SPDX-License-Identifier: Apache-2.0
"""Functions on arrays: specs from the op table, dispatch with cached calls, shape rules, and gradients."""

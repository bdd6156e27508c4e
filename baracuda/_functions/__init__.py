# SPDX-License-Identifier: Apache-2.0
"""Functions on arrays: specs from the op table, array frameworks, shape inference, dispatch, and gradients."""

# SPDX-License-Identifier: Apache-2.0
"""Attention: a module for each op table or two, and its formulas in float64."""

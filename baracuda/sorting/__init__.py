# SPDX-License-Identifier: Apache-2.0
"""Sorting: plans, and functions made of other functions."""

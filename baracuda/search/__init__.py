# SPDX-License-Identifier: Apache-2.0
"""Searching, counting, and unique elements: plans, and functions made of other functions."""

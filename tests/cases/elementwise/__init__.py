# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops: a module for each group of op tables, and common.py."""

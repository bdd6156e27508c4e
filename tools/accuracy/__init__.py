# SPDX-License-Identifier: Apache-2.0
"""Errors of the elementwise functions against true values: python -m tools.accuracy --help"""

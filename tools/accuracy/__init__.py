# SPDX-License-Identifier: Apache-2.0
"""How far the elementwise functions are from the true value: python -m tools.accuracy --help"""

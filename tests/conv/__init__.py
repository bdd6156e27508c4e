# SPDX-License-Identifier: Apache-2.0
"""Convolution: every combination of its numbers, arguments of the functions, and plans."""

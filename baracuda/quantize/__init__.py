# SPDX-License-Identifier: Apache-2.0
"""Quantised weights: formats, and plans that convert to them and back."""

# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: routing, rows of tokens, and products."""

# SPDX-License-Identifier: Apache-2.0
"""Quantisation: plans and functions."""

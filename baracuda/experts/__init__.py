# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: plans of routing, rows and products, and the layer."""

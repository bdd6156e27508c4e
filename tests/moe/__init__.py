# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: the layer as a whole, and what its ops promise to each other."""

# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: the layer as a whole, and what its pieces promise to each other."""

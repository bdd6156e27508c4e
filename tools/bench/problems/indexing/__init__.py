# SPDX-License-Identifier: Apache-2.0
"""Copies, sums and checks by index."""

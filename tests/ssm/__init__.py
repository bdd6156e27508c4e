# SPDX-License-Identifier: Apache-2.0
"""State-space layers: what holds between their functions."""

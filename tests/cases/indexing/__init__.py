# SPDX-License-Identifier: Apache-2.0
"""Gathers, scatters, masks, and checks of indices."""

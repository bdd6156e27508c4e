# SPDX-License-Identifier: Apache-2.0
"""Norms of rows and of groups of channels, and their gradients."""

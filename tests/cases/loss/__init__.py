# SPDX-License-Identifier: Apache-2.0
"""Losses and their gradients: a module for each op table or two."""

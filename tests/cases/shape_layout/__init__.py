# SPDX-License-Identifier: Apache-2.0
"""Copies that change shape or layout, and their gradients."""

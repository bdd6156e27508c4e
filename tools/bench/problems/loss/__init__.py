# SPDX-License-Identifier: Apache-2.0
"""Losses, plain and with weights."""

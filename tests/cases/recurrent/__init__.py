# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers."""

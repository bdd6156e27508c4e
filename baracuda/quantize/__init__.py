# SPDX-License-Identifier: Apache-2.0
"""Quantised arrays: affine codes and block formats."""

# SPDX-License-Identifier: Apache-2.0
"""Softmax, its variants, and masked forms."""

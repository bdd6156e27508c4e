# SPDX-License-Identifier: Apache-2.0
"""Rows of embeddings and bags of them."""

# SPDX-License-Identifier: Apache-2.0
"""Operands of attention: ALiBi, rotary position embedding, the KV cache."""

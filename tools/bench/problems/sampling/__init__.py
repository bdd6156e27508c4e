# SPDX-License-Identifier: Apache-2.0
"""Samplers, filters, penalties and speculative sampling."""

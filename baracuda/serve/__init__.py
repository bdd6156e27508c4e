# SPDX-License-Identifier: Apache-2.0
"""Generates and serves text with Llama-shaped language models, on the functions of the library."""

# SPDX-License-Identifier: Apache-2.0
"""Pooling: every combination of small windows, and the functions under PyTorch's names."""

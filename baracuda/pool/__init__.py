# SPDX-License-Identifier: Apache-2.0
"""Pooling: plans of fixed and of any ranks, and the functions under PyTorch's names."""

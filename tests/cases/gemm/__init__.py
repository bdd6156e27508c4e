# SPDX-License-Identifier: Apache-2.0
"""GEMM: dense, batched, grouped, of narrow elements, with epilogues, and gradients."""

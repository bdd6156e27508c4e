# SPDX-License-Identifier: Apache-2.0
"""GEMM: dense, grouped, of narrow elements, scaled."""

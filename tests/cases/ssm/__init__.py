# SPDX-License-Identifier: Apache-2.0
"""State-space layers: causal convolutions, selective scans of Mamba-1 and Mamba-2, single steps."""

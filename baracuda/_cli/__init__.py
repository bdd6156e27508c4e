# SPDX-License-Identifier: Apache-2.0
"""Output of `python -m baracuda`: descriptions of ops, and measurements beside other libraries."""

# SPDX-License-Identifier: Apache-2.0
"""What `python -m baracuda` prints: descriptions of ops, and measurements beside other libraries."""

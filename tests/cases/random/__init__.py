# SPDX-License-Identifier: Apache-2.0
"""Cases of the random numbers, by module."""

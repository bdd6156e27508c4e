# SPDX-License-Identifier: Apache-2.0
"""Calls of C: checks of what a caller gives, the arguments of each function, cached calls, and their recording."""

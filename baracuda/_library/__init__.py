# SPDX-License-Identifier: Apache-2.0
"""The C library in this process: found, opened, checked, and its ops as the op table describes them."""

# SPDX-License-Identifier: Apache-2.0
"""Dense and packed attention: a module for each op table or two."""

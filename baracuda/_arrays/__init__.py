# SPDX-License-Identifier: Apache-2.0
"""Arrays of other frameworks: DLPack and array interfaces, and how each framework allocates, views and orders them."""

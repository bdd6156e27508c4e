# SPDX-License-Identifier: Apache-2.0
"""Stands in for cuda.bindings where the library of BARACUDA_LIB runs its kernels on fibers (make fibers)."""

"""Stands in for cuda.bindings where the library of BARACUDA_LIB runs its kernels on fibers (make fibers)."""

// SPDX-License-Identifier: Apache-2.0
// Factorisations and solutions for kernels on fibers.
#include "linalg/units/cholesky.cu"
#include "linalg/units/exponential.cu"
#include "linalg/units/ldl.cu"
#include "linalg/units/least_squares.cu"
#include "linalg/units/lu.cu"
#include "linalg/units/product.cu"
#include "linalg/units/qr.cu"
#include "linalg/units/solve.cu"
#include "linalg/units/unpack.cu"

// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and singular values for kernels on fibers.
#include "linalg/jacobi/orthogonalise.cu"
#include "linalg/spectral/general.cu"
#include "linalg/spectral/hermitian.cu"
#include "linalg/spectral/singular.cu"

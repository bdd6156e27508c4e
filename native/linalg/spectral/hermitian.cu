// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of Hermitian matrices, for each scalar.
#include "linalg/jacobi/decompose_cuda.cuh"

namespace bk::linalg::spectral {

template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const HermitianJob<float>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const HermitianJob<double>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const HermitianJob<Complex<float>>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const HermitianJob<Complex<double>>&);

}  // namespace bk::linalg::spectral

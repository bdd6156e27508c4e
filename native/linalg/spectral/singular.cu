// SPDX-License-Identifier: Apache-2.0
// Singular values, for each scalar.
#include "linalg/jacobi/decompose_cuda.cuh"

namespace bk::linalg::spectral {

template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const SingularJob<float>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const SingularJob<double>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const SingularJob<Complex<float>>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const SingularJob<Complex<double>>&);

}  // namespace bk::linalg::spectral

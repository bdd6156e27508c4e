// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of general matrices, for each scalar.
#include "linalg/spectral/general.h"
#include "linalg/spectral/run_cuda.cuh"

namespace bk::linalg::spectral {

template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const GeneralJob<float>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const GeneralJob<double>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const GeneralJob<Complex<float>>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const GeneralJob<Complex<double>>&);

}  // namespace bk::linalg::spectral

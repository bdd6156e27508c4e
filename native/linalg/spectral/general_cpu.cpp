// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of general real matrices.
#include "linalg/spectral/general.h"
#include "linalg/spectral/run_cpu.h"

namespace bk::linalg::spectral {

template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const GeneralJob<float>&);
template Status run_matrix_teams(const Launch&, int64_t, int64_t, const TeamBytes&, const GeneralJob<double>&);

}  // namespace bk::linalg::spectral

// SPDX-License-Identifier: Apache-2.0
// Cholesky factorisation, for each scalar.
#include "linalg/drivers/cholesky.h"

namespace bk::linalg {

template int64_t cholesky_bytes<float>(int64_t, int64_t);
template Status cholesky<float>(const Launch&, const CholeskyProblem<float>&, void*);
template int64_t cholesky_bytes<double>(int64_t, int64_t);
template Status cholesky<double>(const Launch&, const CholeskyProblem<double>&, void*);
template int64_t cholesky_bytes<Complex<float>>(int64_t, int64_t);
template Status cholesky<Complex<float>>(const Launch&, const CholeskyProblem<Complex<float>>&, void*);
template int64_t cholesky_bytes<Complex<double>>(int64_t, int64_t);
template Status cholesky<Complex<double>>(const Launch&, const CholeskyProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

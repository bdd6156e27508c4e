// SPDX-License-Identifier: Apache-2.0
// Least squares, for each scalar.
#include "linalg/drivers/least_squares.h"

namespace bk::linalg {

template int64_t least_squares_bytes<float>(int64_t, int64_t, int64_t, int64_t);
template Status least_squares<float>(const Launch&, const LeastSquaresProblem<float>&, void*);
template int64_t least_squares_bytes<double>(int64_t, int64_t, int64_t, int64_t);
template Status least_squares<double>(const Launch&, const LeastSquaresProblem<double>&, void*);
template int64_t least_squares_bytes<Complex<float>>(int64_t, int64_t, int64_t, int64_t);
template Status least_squares<Complex<float>>(const Launch&, const LeastSquaresProblem<Complex<float>>&, void*);
template int64_t least_squares_bytes<Complex<double>>(int64_t, int64_t, int64_t, int64_t);
template Status least_squares<Complex<double>>(const Launch&, const LeastSquaresProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

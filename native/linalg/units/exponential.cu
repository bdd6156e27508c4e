// SPDX-License-Identifier: Apache-2.0
// Matrix exponential, for each scalar.
#include "linalg/drivers/exponential.h"

namespace bk::linalg {

template int64_t exponential_bytes<float>(int64_t, int64_t);
template Status exponential<float>(const Launch&, const ExponentialProblem<float>&, void*);
template int64_t exponential_bytes<double>(int64_t, int64_t);
template Status exponential<double>(const Launch&, const ExponentialProblem<double>&, void*);
template int64_t exponential_bytes<Complex<float>>(int64_t, int64_t);
template Status exponential<Complex<float>>(const Launch&, const ExponentialProblem<Complex<float>>&, void*);
template int64_t exponential_bytes<Complex<double>>(int64_t, int64_t);
template Status exponential<Complex<double>>(const Launch&, const ExponentialProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

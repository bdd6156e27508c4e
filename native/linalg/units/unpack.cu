// SPDX-License-Identifier: Apache-2.0
// Parts of factorisations, for each scalar.
#include "linalg/drivers/unpack.h"

namespace bk::linalg {

template Status unpack<float>(const Launch&, const UnpackProblem<float>&);
template Status unpack<double>(const Launch&, const UnpackProblem<double>&);
template Status unpack<Complex<float>>(const Launch&, const UnpackProblem<Complex<float>>&);
template Status unpack<Complex<double>>(const Launch&, const UnpackProblem<Complex<double>>&);

}  // namespace bk::linalg

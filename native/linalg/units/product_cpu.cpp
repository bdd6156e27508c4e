// SPDX-License-Identifier: Apache-2.0
// Products, for each scalar.
#include "linalg/product_cpu.h"

namespace bk::linalg {

template Status product<float>(const Launch&, const ProductProblem<float>&);
template Status product<double>(const Launch&, const ProductProblem<double>&);
template Status product<Complex<float>>(const Launch&, const ProductProblem<Complex<float>>&);
template Status product<Complex<double>>(const Launch&, const ProductProblem<Complex<double>>&);

}  // namespace bk::linalg

// SPDX-License-Identifier: Apache-2.0
// Solutions, for each scalar.
#include "linalg/drivers/solve.h"

namespace bk::linalg {

template int64_t solve_bytes<float>(const SolveProblem<float>&);
template Status solve<float>(const Launch&, const SolveProblem<float>&, void*);
template int64_t solve_bytes<double>(const SolveProblem<double>&);
template Status solve<double>(const Launch&, const SolveProblem<double>&, void*);
template int64_t solve_bytes<Complex<float>>(const SolveProblem<Complex<float>>&);
template Status solve<Complex<float>>(const Launch&, const SolveProblem<Complex<float>>&, void*);
template int64_t solve_bytes<Complex<double>>(const SolveProblem<Complex<double>>&);
template Status solve<Complex<double>>(const Launch&, const SolveProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

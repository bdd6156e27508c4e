// SPDX-License-Identifier: Apache-2.0
// LU factorisation and determinants, for each scalar.
#include "linalg/drivers/lu.h"

namespace bk::linalg {

template int64_t lu_bytes<float>(int64_t, int64_t, int64_t);
template Status factor_lu<float>(const Launch&, const LuProblem<float>&, void*);
template int64_t determinant_bytes<float>(int64_t, int64_t);
template Status determinant<float>(const Launch&, const DeterminantProblem<float>&, void*);
template int64_t lu_bytes<double>(int64_t, int64_t, int64_t);
template Status factor_lu<double>(const Launch&, const LuProblem<double>&, void*);
template int64_t determinant_bytes<double>(int64_t, int64_t);
template Status determinant<double>(const Launch&, const DeterminantProblem<double>&, void*);
template int64_t lu_bytes<Complex<float>>(int64_t, int64_t, int64_t);
template Status factor_lu<Complex<float>>(const Launch&, const LuProblem<Complex<float>>&, void*);
template int64_t determinant_bytes<Complex<float>>(int64_t, int64_t);
template Status determinant<Complex<float>>(const Launch&, const DeterminantProblem<Complex<float>>&, void*);
template int64_t lu_bytes<Complex<double>>(int64_t, int64_t, int64_t);
template Status factor_lu<Complex<double>>(const Launch&, const LuProblem<Complex<double>>&, void*);
template int64_t determinant_bytes<Complex<double>>(int64_t, int64_t);
template Status determinant<Complex<double>>(const Launch&, const DeterminantProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

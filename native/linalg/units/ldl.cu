// SPDX-License-Identifier: Apache-2.0
// LDL factorisation and solutions, for each scalar.
#include "linalg/drivers/ldl.h"

namespace bk::linalg {

template int64_t ldl_bytes<float>(int64_t, int64_t, int64_t);
template Status ldl<float>(const Launch&, const LdlProblem<float>&, void*);
template int64_t ldl_bytes<double>(int64_t, int64_t, int64_t);
template Status ldl<double>(const Launch&, const LdlProblem<double>&, void*);
template int64_t ldl_bytes<Complex<float>>(int64_t, int64_t, int64_t);
template Status ldl<Complex<float>>(const Launch&, const LdlProblem<Complex<float>>&, void*);
template int64_t ldl_bytes<Complex<double>>(int64_t, int64_t, int64_t);
template Status ldl<Complex<double>>(const Launch&, const LdlProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

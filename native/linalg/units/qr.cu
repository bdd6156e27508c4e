// SPDX-License-Identifier: Apache-2.0
// QR factorisation and products of reflectors, for each scalar.
#include "linalg/drivers/qr.h"

namespace bk::linalg {

template int64_t qr_bytes<float>(int64_t, int64_t, int64_t);
template Status factor_qr<float>(const Launch&, const QrProblem<float>&, void*);
template int64_t reflect_bytes<float>(int64_t, int64_t, int64_t, int64_t);
template Status reflect<float>(const Launch&, const ReflectProblem<float>&, void*);
template int64_t qr_bytes<double>(int64_t, int64_t, int64_t);
template Status factor_qr<double>(const Launch&, const QrProblem<double>&, void*);
template int64_t reflect_bytes<double>(int64_t, int64_t, int64_t, int64_t);
template Status reflect<double>(const Launch&, const ReflectProblem<double>&, void*);
template int64_t qr_bytes<Complex<float>>(int64_t, int64_t, int64_t);
template Status factor_qr<Complex<float>>(const Launch&, const QrProblem<Complex<float>>&, void*);
template int64_t reflect_bytes<Complex<float>>(int64_t, int64_t, int64_t, int64_t);
template Status reflect<Complex<float>>(const Launch&, const ReflectProblem<Complex<float>>&, void*);
template int64_t qr_bytes<Complex<double>>(int64_t, int64_t, int64_t);
template Status factor_qr<Complex<double>>(const Launch&, const QrProblem<Complex<double>>&, void*);
template int64_t reflect_bytes<Complex<double>>(int64_t, int64_t, int64_t, int64_t);
template Status reflect<Complex<double>>(const Launch&, const ReflectProblem<Complex<double>>&, void*);

}  // namespace bk::linalg

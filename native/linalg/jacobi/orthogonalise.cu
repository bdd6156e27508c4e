// SPDX-License-Identifier: Apache-2.0
// Orthogonal columns by Jacobi's iteration, for each scalar.
#include "linalg/jacobi/orthogonalise_cuda.cuh"

namespace bk::linalg::spectral {

template Status orthogonalise(const Launch&, const JacobiProblem<float>&, const JacobiStart<float>&);
template Status orthogonalise(const Launch&, const JacobiProblem<double>&, const JacobiStart<double>&);
template Status orthogonalise(const Launch&, const JacobiProblem<Complex<float>>&, const JacobiStart<Complex<float>>&);
template Status orthogonalise(const Launch&, const JacobiProblem<Complex<double>>&, const JacobiStart<Complex<double>>&);

}  // namespace bk::linalg::spectral

// SPDX-License-Identifier: Apache-2.0
// Fourier transforms for kernels on fibers.
#include "fft/passes.cu"

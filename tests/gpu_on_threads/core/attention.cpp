// SPDX-License-Identifier: Apache-2.0
// The attention cores of the CUDA library for kernels on fibers.
#include "attention/flash/attention.cu"

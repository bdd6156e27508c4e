// SPDX-License-Identifier: Apache-2.0
// Products of few rows with weights of four bits for kernels on fibers.
#include "quantize/instances/few_rows.cu"

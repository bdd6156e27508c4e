// SPDX-License-Identifier: Apache-2.0
// run_matrix_teams() of this target, for the translation units that instantiate it.
#pragma once

#include "linalg/spectral/team.h"

#if BK_CUDA
#include "linalg/spectral/run_cuda.cuh"
#else
#include "linalg/spectral/run_cpu.h"
#endif

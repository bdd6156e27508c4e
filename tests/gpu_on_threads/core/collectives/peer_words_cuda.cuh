// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/collectives/peer_words_cuda.cuh: kernels follow each other, so that what a wait is for has come
// before or never comes.
#pragma once

#include "core/collectives/peer_words_cpu.h"

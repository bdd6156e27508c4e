// SPDX-License-Identifier: Apache-2.0
// The CPU's own math functions, all of f32: branch-free IEEE 754 operations that give the same bits at every vector
// width and on every machine. Errors are below 2 ulp (tools/accuracy).
#pragma once

#include "core/math/error_function_cpu.h"
#include "core/math/exp_log_cpu.h"
#include "core/math/f64_cpu.h"
#include "core/math/gamma_cpu.h"
#include "core/math/hyperbolic_cpu.h"
#include "core/math/inverse_trigonometric_cpu.h"
#include "core/math/roots_cpu.h"
#include "core/math/trigonometric_cpu.h"

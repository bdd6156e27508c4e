// The mathematics library of the CPU, and of f32 all of it: branch-free operations of IEEE 754, which give the same bits in
// vectors of every width and on every machine. Errors are below 2 ulp (tools/accuracy).
#pragma once

#include "core/math/error_function_cpu.h"
#include "core/math/exp_log_cpu.h"
#include "core/math/f64_cpu.h"
#include "core/math/gamma_cpu.h"
#include "core/math/hyperbolic_cpu.h"
#include "core/math/inverse_trigonometric_cpu.h"
#include "core/math/roots_cpu.h"
#include "core/math/trigonometric_cpu.h"

// The mathematics library of the CPU, and of f32 all of it: branch-free operations of IEEE 754, which give the same bits in
// vectors of every width and on every machine. Errors are below 2 ulp (tools/accuracy).
#pragma once

#include "core/error_function_cpu.h"
#include "core/exp_log_cpu.h"
#include "core/f64_cpu.h"
#include "core/gamma_cpu.h"
#include "core/hyperbolic_cpu.h"
#include "core/inverse_trigonometric_cpu.h"
#include "core/roots_cpu.h"
#include "core/trigonometric_cpu.h"

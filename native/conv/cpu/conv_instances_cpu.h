// SPDX-License-Identifier: Apache-2.0
// The functions of conv/core.h for one dtype; a compilation unit each.
#pragma once

#include "conv/cpu/col2im_cpu.h"
#include "conv/cpu/conv_cpu.h"

#define BK_CONV_INSTANCES(T)                                                                                                \
    template Status conv_forward<T>(const Launch&, const ConvShape&, const T*, const T*, T*, const ConvEpilogue<T>&);       \
    template Status conv_backward_data<T>(const Launch&, const ConvShape&, const T*, const T*, T*, const ConvEpilogue<T>&); \
    template Status conv_backward_filter<T>(const Launch&, const ConvShape&, const T*, const T*, T*, matmul_scalar_t<T>,    \
                                            matmul_scalar_t<T>);                                                            \
    template size_t conv_workspace<T>(const ConvShape&, ConvDirection);                                                     \
    template Status add_col2im_1d<T>(const Launch&, const Col2Im1d&, const T*, T*);

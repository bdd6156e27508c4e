// SPDX-License-Identifier: Apache-2.0
// Arguments of max_pool_1d to avg_pool_3d: dense images, a fixed number of axes, symmetric padding.
#pragma once

#include "pool/problem.h"

namespace bk::pool {

struct MaxWindows1d {
    int32_t batch, channels, l_in, l_out, kl, sl, pl;

    DenseWindows given() const { return {batch, channels, 1, {{'l', l_in, l_out, kl, sl, pl}}}; }
};

struct AverageWindows1d {
    int32_t batch, channels, l_in, l_out, kl, sl, pl, count_include_pad;

    DenseWindows given() const { return {batch, channels, 1, {{'l', l_in, l_out, kl, sl, pl}}}; }
    Divisor divisor() const { return {count_include_pad != 0, 0}; }
};

struct MaxWindows2d {
    int32_t batch, channels, h_in, w_in, h_out, w_out, kh, kw, sh, sw, ph, pw;

    DenseWindows given() const {
        return {batch, channels, 2, {{'h', h_in, h_out, kh, sh, ph}, {'w', w_in, w_out, kw, sw, pw}}};
    }
};

struct AverageWindows2d {
    int32_t batch, channels, h_in, w_in, h_out, w_out, kh, kw, sh, sw, ph, pw, count_include_pad;

    DenseWindows given() const {
        return {batch, channels, 2, {{'h', h_in, h_out, kh, sh, ph}, {'w', w_in, w_out, kw, sw, pw}}};
    }
    Divisor divisor() const { return {count_include_pad != 0, 0}; }
};

struct MaxWindows3d {
    int32_t batch, channels, d_in, h_in, w_in, d_out, h_out, w_out, kd, kh, kw, sd, sh, sw, pd, ph, pw;

    DenseWindows given() const {
        return {batch,
                channels,
                3,
                {{'d', d_in, d_out, kd, sd, pd}, {'h', h_in, h_out, kh, sh, ph}, {'w', w_in, w_out, kw, sw, pw}}};
    }
};

struct AverageWindows3d {
    int32_t batch, channels, d_in, h_in, w_in, d_out, h_out, w_out, kd, kh, kw, sd, sh, sw, pd, ph, pw, count_include_pad;

    DenseWindows given() const {
        return {batch,
                channels,
                3,
                {{'d', d_in, d_out, kd, sd, pd}, {'h', h_in, h_out, kh, sh, ph}, {'w', w_in, w_out, kw, sw, pw}}};
    }
    Divisor divisor() const { return {count_include_pad != 0, 0}; }
};

}  // namespace bk::pool

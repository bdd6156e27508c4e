// SPDX-License-Identifier: Apache-2.0
// GEMM of f16 activations with int4 weights that share scales in groups along k: Marlin and AWQ layouts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/types/dtype.h"

namespace bk {

// Marlin. For every 16 K elements and 64 columns `weights` has 128 words: words 4i to 4i + 3 belong to lane i of a
// warp, one for each 16 columns, with elements in mma fragment order. marlin_scale_index() gives the order of scales in
// 64 columns, or in 32 if one serves a whole column.
struct MarlinProduct {
    int64_t m, n, k, group;  // group is k where one scale serves a whole column
    const f16* a;
    const int32_t* weights;
    const f16* scales;
    f16* d;
    bool by_groups;
};

// Index of column j's scale in its row.
BK_HD int64_t marlin_scale_index(int64_t j, bool by_groups) {
    if (by_groups) return j / 64 * 64 + j % 8 * 8 + j % 64 / 8;
    return j / 32 * 32 + j % 8 / 2 * 8 + j % 32 / 8 * 2 + j % 2;
}

// AWQ. A word has eight weights of a column along k, the first in the lowest bits; zero points are packed alike, eight
// groups to a word. A row of `zeros` has `zero_words` words, one of `scales` eight times as many elements. A weight is
// f16(scale * (q - zero)).
struct AwqProduct {
    int64_t m, n, k, group, zero_words;
    const f16* a;
    const int32_t* weights;
    const f16* scales;
    const int32_t* zeros;
    f16* d;

    BK_HD float zero_of(int64_t j, int64_t g) const {
        return static_cast<float>(static_cast<uint32_t>(zeros[j * zero_words + g / 8]) >> g % 8 * 4 & 15u);
    }
    BK_HD f16 scale_of(int64_t j, int64_t g) const { return scales[j * 8 * zero_words + g]; }
};

Status marlin_product(const Launch& launch, const MarlinProduct& p);
Status awq_product(const Launch& launch, const AwqProduct& p);
Status awq_dequantize(const Launch& launch, const AwqProduct& p);  // into d, n x k

inline Status require_positive(const char* name, int32_t value) {
    if (value > 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be > 0", name, value);
}

inline Status require_divisible(const char* name, int32_t value, int32_t by, const char* why) {
    if (value % by == 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be a multiple of %d%s", name, value, by, why);
}

struct Int4MarlinGemm {
    int32_t M, N, K, groupsize, max_par;

    int32_t strips() const { return K / 16; }
    int64_t words() const { return int64_t{2} * N; }
    int32_t groups() const { return groupsize == -1 ? 1 : K / 128; }
    int32_t locks() const { return 0; }  // the GEMM needs none

    Work work() const { return all_or_none(M); }
    Status check() const {
        BK_TRY(require_non_negative({{"M", M}}));
        BK_TRY(require_positive("N", N));
        BK_TRY(require_positive("K", K));
        if (groupsize != -1 && groupsize != 128)
            return fail(Status::kInvalidProblem, "groupsize is %d, must be 128 or -1", groupsize);
        BK_TRY(require_divisible("N", N, 64, ""));
        return require_divisible("K", K, groupsize == -1 ? 16 : 128, "");
    }
    Status run(const f16* a, const int32_t* b, f16* c, const f16* scales, int32_t*, const Launch& launch) const {
        BK_TRY(require_positive("max_par", max_par));
        const int64_t group = groupsize == -1 ? K : groupsize;
        return marlin_product(launch, {M, N, K, group, a, b, scales, c, groupsize != -1});
    }
};

struct AwqLayout {
    static int32_t zero_words(int32_t k, int32_t group) {
        const int32_t multiple = 128 / group, words = ceil_div(k / group, 8);
        return ceil_div(words, multiple) * multiple;
    }
    static Status check(const char* k_name, int32_t k, int32_t group) {
        if (group != 64 && group != 128) return fail(Status::kInvalidProblem, "group_size is %d, must be 64 or 128", group);
        return require_divisible(k_name, k, group, ", group_size");
    }
};

struct Int4AwqGemm {
    int32_t M, IC, OC, group_size, split_k_iters;

    int32_t words() const { return IC / 8; }
    int32_t zero_words() const { return AwqLayout::zero_words(IC, group_size); }
    int32_t scale_columns() const { return 8 * zero_words(); }

    Work work() const { return all_or_none(M); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"M", M}}));
        BK_TRY(require_positive("OC", OC));
        BK_TRY(require_divisible("OC", OC, 64, ""));
        return require_positive("split_k_iters", split_k_iters);
    }
    Status check() const {
        BK_TRY(require_non_negative({{"M", M}}));
        BK_TRY(require_positive("IC", IC));
        BK_TRY(require_positive("OC", OC));
        if (group_size != 64 && group_size != 128)
            return fail(Status::kInvalidProblem, "group_size is %d, must be 64 or 128", group_size);
        BK_TRY(require_divisible("OC", OC, 64, ""));
        BK_TRY(AwqLayout::check("IC", IC, group_size));
        BK_TRY(require_positive("split_k_iters", split_k_iters));
        if (IC % (int64_t{32} * split_k_iters) != 0)
            return fail(Status::kInvalidProblem, "split_k_iters is %d, but IC, %d, is no multiple of 32 times as much",
                        split_k_iters, IC);
        return Status::kOk;
    }
    Status run(const f16* in_feats, const int32_t* weights, const f16* scales, const int32_t* zeros, f16* out,
               const Launch& launch) const {
        return awq_product(launch, {M, OC, IC, group_size, zero_words(), in_feats, weights, scales, zeros, out});
    }
};

struct Int4AwqDequantize {
    int32_t N, K, group_size;

    int32_t words() const { return K / 8; }
    int32_t zero_words() const { return AwqLayout::zero_words(K, group_size); }
    int32_t scale_columns() const { return 8 * zero_words(); }

    Work work() const { return all_or_none(std::min(N, K)); }
    Status check() const {
        BK_TRY(require_non_negative({{"N", N}, {"K", K}}));
        return AwqLayout::check("K", K, group_size);
    }
    Status run(const int32_t* weights, const f16* scales, const int32_t* zeros, f16* out, const Launch& launch) const {
        return awq_dequantize(launch, {0, N, K, group_size, zero_words(), nullptr, weights, scales, zeros, out});
    }
};

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
// Rotary embedding and KV-cache append on fibers (tests/gpu_on_threads/core) against plain loops.
#define __CUDA_ARCH_LIST__ 800

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "attention/rope/rotation.h"
#include "attention/serving/kv_cache_append_cuda.cuh"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

constexpr Launch kLaunch{nullptr, 0, nullptr};

float value_at(int64_t i) { return static_cast<float>((i * 37 + 11) % 29 - 14) / 4; }

// Memory of `count` elements on a 16-byte boundary, or one element after it.
template <class T>
struct Cells {
    std::vector<T> memory;
    T* first;
    Cells(int64_t count, bool is_shifted) : memory(static_cast<size_t>(count) + 32, narrow<T>(99.0f)) {
        first = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16) + is_shifted;
        for (int64_t i = 0; i < count; ++i) first[i] = narrow<T>(value_at(i));
    }
};

struct Problem {
    int64_t groups, outer, inner, tokens, pairs, unrotated;
};

template <class T, class Angles, class Find>
bool is_right(const Problem& p, bool is_split, bool is_inverse, bool is_shifted, bool in_place, const Angles& angles,
              const Find& find) {
    const int64_t features = 2 * p.pairs + p.unrotated;
    // Tokens are between the outer and inner axes, as in a [tokens, heads] layout.
    const RotaryStrides strides{p.outer * p.inner * p.tokens * features, p.inner * p.tokens * features, features,
                                p.inner * features};
    const RotaryShape shape{p.groups, p.outer, p.inner, p.tokens, p.pairs, p.unrotated, is_split, is_inverse, strides, strides};
    const int64_t count = p.groups * strides.group;
    Cells<T> x(count, is_shifted), other(count, is_shifted);
    T* const y = in_place ? x.first : other.first;
    std::vector<double> before(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) before[static_cast<size_t>(i)] = widen(x.first[i]);
    const T* const source = x.first;
    if (rotate(kLaunch, shape, angles, source, y) != Status::kOk) return false;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t feature = i % features, token = i / features / p.inner % p.tokens;
        const int64_t group = i / strides.group;
        double want = before[static_cast<size_t>(i)];
        if (feature < 2 * p.pairs) {
            const int64_t pair = is_split ? feature % p.pairs : feature / 2;
            const bool is_second = is_split ? feature >= p.pairs : feature % 2 == 1;
            const int64_t partner = i + (is_second ? -1 : 1) * (is_split ? p.pairs : 1);
            const CosSin<double> angle = find(group, token, pair);
            const double sign = (is_second ? 1 : -1) * (is_inverse ? -1 : 1);
            want = want * angle.cos + sign * before[static_cast<size_t>(partner)] * angle.sin;
        }
        const double got = widen(y[i]);
        if (std::fabs(got - want) <= (sizeof(T) == 2 ? 4e-3 : 1e-6) * std::fmax(std::fabs(want), 8.0)) continue;
        printf("element %d: %g, expected %g\n", static_cast<int>(i), got, want);
        return false;
    }
    return true;
}

template <class T>
bool rotations_are_right(const char* name) {
    constexpr Problem kProblems[] = {{1, 2, 3, 5, 4, 0},  {2, 1, 3, 7, 16, 0}, {3, 1, 1, 9, 8, 0},  {1, 1, 37, 2, 24, 16},
                                     {1, 3, 9, 1, 32, 0}, {2, 1, 2, 3, 5, 6},  {1, 1, 2, 3, 300, 0}};
    constexpr int64_t kPositions[] = {0, 1, 77, int64_t{1} << 24, (int64_t{1} << 40) + 3, -5, 123456789, 2, 9};
    bool right = true;
    int trial = 0;
    for (const Problem& p : kProblems)
        for (int way = trial++ % 7; way < 16; way += sizeof(T) == 2 ? 11 : 7) {
            const bool is_split = way & 1, is_inverse = way & 2, is_shifted = way & 4, in_place = way & 8;
            const auto frequencies = RotaryFrequencies<kAngleWords<compute_t<T>>>::of(10000.0, p.pairs);
            std::vector<int64_t> positions;
            for (int64_t i = 0; i < p.groups * p.tokens; ++i) positions.push_back(kPositions[i % 9] + i);
            const auto find = [&](int64_t group, int64_t token, int64_t pair) {
                return cos_sin<double>(positions[static_cast<size_t>(group * p.tokens + token)], frequencies.at(pair));
            };
            const RotaryPositions<compute_t<T>> angles{positions.data(), p.tokens, frequencies};
            bool good = is_right<T>(p, is_split, is_inverse, is_shifted, in_place, angles, find);

            const int64_t table = p.tokens * p.pairs;
            Cells<float> cos(p.groups * table, false), sin(p.groups * table + 1, is_shifted);
            for (const bool shares : {false, true}) {
                const int64_t step = shares ? 0 : table;
                const RotaryTables<float> tables{cos.first, sin.first, step, p.pairs};
                const auto look = [&](int64_t group, int64_t token, int64_t pair) -> CosSin<double> {
                    const int64_t at = group * step + token * p.pairs + pair;
                    return {cos.first[at], sin.first[at]};
                };
                good = is_right<T>(p, is_split, is_inverse, is_shifted, in_place, tables, look) && good;
            }
            if (good) continue;
            printf("%s is wrong: %d pairs, way %d\n", name, static_cast<int>(p.pairs), way);
            right = false;
        }
    return right;
}

// Rows of bytes; d counts bytes.
bool append_is_right(int64_t batch, int64_t heads, int64_t new_len, int64_t most, int64_t d_k, int64_t d_v, bool is_shifted) {
    const CacheShape shape{batch, heads, new_len, most};
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b < batch; ++b) offsets.push_back(b == 2 ? INT64_MIN : b == 3 ? INT64_MAX : (b * 5) % (most + 2) - 1);
    const int64_t planes = batch * heads, d[] = {d_k, d_v};
    std::vector<std::vector<uint4>> memory;
    CacheRows both[2];
    std::vector<char> wanted[2];
    for (int k = 0; k < 2; ++k) {
        for (const int64_t rows : {new_len, most}) {
            memory.emplace_back(static_cast<size_t>(planes * rows * d[k]) / 16 + 2);
            char* const cells = reinterpret_cast<char*>(memory.back().data()) + is_shifted;
            for (int64_t i = 0; i < planes * rows * d[k]; ++i) cells[i] = static_cast<char>(i * 7 + rows);
            if (rows == new_len)
                both[k].source = cells;
            else
                both[k].cache = cells;
        }
        both[k].row_bytes = d[k];
        wanted[k].assign(both[k].cache, both[k].cache + planes * most * d[k]);
        for (int64_t plane = 0; plane < planes; ++plane)
            for (int64_t l = 0; l < new_len; ++l) {
                const int64_t offset = offsets[static_cast<size_t>(plane / heads)];
                if (offset < -l || offset >= most - l || d[k] == 0) continue;
                memcpy(&wanted[k][static_cast<size_t>((plane * most + offset + l) * d[k])],
                       both[k].source + (plane * new_len + l) * d[k], static_cast<size_t>(d[k]));
            }
    }
    if (append_rows(kLaunch, shape, offsets.data(), both) != Status::kOk) return false;
    for (int k = 0; k < 2; ++k)
        if (memcmp(wanted[k].data(), both[k].cache, wanted[k].size()) != 0) {
            printf("operand %d of an append is wrong: rows of %d bytes\n", k, static_cast<int>(d[k]));
            return false;
        }
    return true;
}

}  // namespace

int main() {
    bool right = rotations_are_right<float>("rotation of f32");
    right = rotations_are_right<bf16>("rotation of bf16") && right;
    for (const bool is_shifted : {false, true})
        for (const int64_t d : {int64_t{16}, int64_t{24}, int64_t{6}, int64_t{33}, int64_t{4}})
            right = append_is_right(5, 3, 4, 9, d, 2 * d, is_shifted) && append_is_right(6, 1, 3, 7, 0, d, is_shifted) && right;
    if (right) puts("ok");
    return right ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Attention problems with random operands, and their results from the formulas in double precision, for the programs
// that include it. Rows that no sequence has, and memory between rows, hold NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "attention/flash/scores.h"
#include "core/intrinsics/async_copy.cuh"
#include "core/types/fp8.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    puts(format);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

uint32_t random_state = 1;

uint32_t draw_bits() {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

float draw(float size) { return (static_cast<float>(draw_bits() % 2048) / 1024 - 1) * size; }

template <class E>
double wide(E x) {
    if constexpr (std::is_same_v<E, e4m3> || std::is_same_v<E, e5m2>)
        return static_cast<double>(fp8_to_float(x));
    else
        return static_cast<double>(widen(x));
}

template <class E>
E narrowed(float x) {
    if constexpr (std::is_same_v<E, e4m3> || std::is_same_v<E, e5m2>)
        return float_to_fp8<E>(x);
    else
        return narrow<E>(x);
}

struct Options {
    int64_t batch = 1, heads = 2, kv_heads = 2, q_len = 40, k_len = 70, d_k = 64, d_v = 64;
    bool is_causal = false;
    int64_t left = -1, right = -1;
    bool aligns_ends = false;
    float softcap = 0, scale = 0.25f;
    bool slopes = false, sinks = false, mask = false, base2 = false, element_lse = false, is_invariant = false, is_split = true;
    Values bias = Values::kNone;
    int64_t blocks = 0;
    float dropout = 0;
    bool k_lens = false, varlen = false;
    int64_t page_size = 0;
    int gap = 8, offset = 0;  // elements after each row; elements before the first
    uint32_t seed = 7;
};

// An operand [batch, head, row, element] behind a 16-byte boundary.
template <class E>
struct Tensor {
    std::vector<uint4> memory;
    HeadsView<E> view;
    int64_t count = 0;

    void make(int64_t batch, int64_t heads, int64_t rows, int64_t width, const Options& o) {
        view.row = width + o.gap;
        view.head = rows * view.row;
        view.batch = heads * view.head;
        count = batch * view.batch;
        memory.assign(static_cast<size_t>(count + o.offset) * sizeof(E) / 16 + 2, uint4{});
        view.data = reinterpret_cast<E*>(memory.data()) + o.offset;
        fill(std::numeric_limits<float>::quiet_NaN());
    }
    void fill(float value) {
        for (int64_t i = 0; i < count; ++i) view.data[i] = narrowed<E>(value);
    }
    void draw_row(int64_t b, int64_t h, int64_t r, int64_t width, float size) {
        for (int64_t x = 0; x < width; ++x) view.at(b, h, r)[x] = narrowed<E>(draw(size));
    }
    HeadsView<const E> reading() const { return {view.data, view.batch, view.head, view.row}; }
    Readable range() const {
        return {reinterpret_cast<const char*>(view.data), reinterpret_cast<const char*>(view.data + count)};
    }
};

template <class T, class KV = T>
struct Problem {
    Options o;
    AttentionForward<T, KV> p;
    Tensor<T> q, y;
    Tensor<KV> k, v;
    std::vector<int32_t> q_offsets, k_offsets, k_lens, pages, page_offsets, last_page;
    std::vector<float> slopes, sinks, lse, bias_f32;
    std::vector<T> bias, lse_element;
    std::vector<uint8_t> mask, blocks;
    uint64_t seed = 12345;

    explicit Problem(const Options& options) : o(options) {
        random_state = o.seed;
        p.batch = o.batch, p.heads = o.heads, p.kv_heads = o.kv_heads, p.d_k = o.d_k, p.d_v = o.d_v;
        p.is_batch_invariant = o.is_invariant;
        make_lengths();
        make_rules();
        make_operands();
    }

    int64_t q_rows() const { return o.varlen ? p.lengths.total_q : o.q_len; }
    int64_t q_batch() const { return o.varlen ? 1 : o.batch; }

    void make_lengths() {
        Lengths& l = p.lengths;
        l.q_len = o.q_len, l.k_len = o.k_len;
        const auto random_lengths = [&](std::vector<int32_t>& offsets, int64_t most, int64_t& total) {
            offsets = {2};
            for (int64_t b = 0; b < o.batch; ++b)
                offsets.push_back(offsets.back() + static_cast<int32_t>(b == 1 ? 0 : most - draw_bits() % (most / 2 + 1)));
            total = offsets.back() + 3;
        };
        if (o.varlen) {
            random_lengths(q_offsets, o.q_len, l.total_q);
            l.q_offsets = q_offsets.data();
            if (o.page_size == 0) {
                random_lengths(k_offsets, o.k_len, l.total_k);
                l.k_offsets = k_offsets.data();
            }
        }
        if (o.page_size > 0) {
            l.page_size = o.page_size;
            page_offsets = {0};
            for (int64_t b = 0; b < o.batch; ++b) {
                const int64_t length = b == 1 ? 0 : o.k_len - static_cast<int64_t>(draw_bits() % (o.k_len / 2 + 1));
                const int64_t count = (length + o.page_size - 1) / o.page_size;
                page_offsets.push_back(page_offsets.back() + static_cast<int32_t>(count));
                last_page.push_back(static_cast<int32_t>(length - (count - 1) * o.page_size));
            }
            const int64_t all = page_offsets.back();
            for (int64_t i = 0; i < all; ++i) pages.push_back(static_cast<int32_t>((i * 7 + 3) % (all + 4)));
            if (all > 0 && (all + 4) % 7 == 0)
                for (int64_t i = 0; i < all; ++i) pages[static_cast<size_t>(i)] = static_cast<int32_t>(all + 3 - i);
            pages.push_back(0);
            l.page_ids = pages.data(), l.page_offsets = page_offsets.data(), l.last_page_len = last_page.data();
        }
        if (o.k_lens) {
            for (int64_t b = 0; b < o.batch; ++b)
                k_lens.push_back(
                    static_cast<int32_t>(b == 1 ? 0 : o.k_len - static_cast<int64_t>(draw_bits() % (o.k_len / 2 + 1))));
            l.k_lens = k_lens.data();
        }
    }

    void make_rules() {
        ScoreRules& r = p.rules;
        r.scale = o.scale, r.softcap = o.softcap;
        r.band = Band::of(o.is_causal, o.left, o.right, o.aligns_ends);
        const auto cells = static_cast<size_t>(o.batch * o.heads * o.q_len * o.k_len);
        if (o.slopes) {
            for (int64_t h = 0; h < o.heads; ++h) slopes.push_back(0.05f * static_cast<float>(h + 1));
            r.slopes = slopes.data();
        }
        if (o.sinks) {
            for (int64_t h = 0; h < o.heads; ++h) sinks.push_back(draw(2));
            r.sinks = sinks.data();
        }
        if (o.bias != Values::kNone) {
            bias_f32.resize(cells), bias.resize(cells);
            for (size_t i = 0; i < cells; ++i) {
                bias[i] = narrow<T>(i % 11 == 0 ? -INFINITY : draw(2));
                bias_f32[i] = widen(bias[i]);
            }
            const void* const data = o.bias == Values::kF32 ? static_cast<const void*>(bias_f32.data()) : bias.data();
            r.bias = {data, o.bias, o.heads * o.q_len * o.k_len, o.q_len * o.k_len, o.k_len, 1};
        }
        if (o.mask) {  // the same for all heads
            mask.resize(static_cast<size_t>(o.batch * o.q_len * o.k_len));
            for (uint8_t& cell : mask) cell = draw_bits() % 3 == 0;
            for (int64_t j = 0; j < o.k_len && o.q_len > 2; ++j) mask[static_cast<size_t>(2 * o.k_len + j)] = 0;
            r.mask = {mask.data(), Values::kKeep, o.q_len * o.k_len, 0, o.k_len, 1};
        }
        if (o.blocks > 0) {
            const int64_t rows = (o.q_len + o.blocks - 1) / o.blocks, columns = (o.k_len + o.blocks - 1) / o.blocks;
            blocks.resize(static_cast<size_t>(o.batch * o.heads * rows * columns));
            for (uint8_t& block : blocks) block = draw_bits() % 2 == 0;
            r.blocks = {blocks.data(), o.blocks, o.heads * rows * columns, rows * columns, columns};
        }
        r.dropout = {o.dropout, &seed};
    }

    void make_operands() {
        q.make(q_batch(), o.heads, q_rows(), o.d_k, o);
        y.make(q_batch(), o.heads, q_rows(), o.d_v, o);
        y.fill(99);
        const Lengths& l = p.lengths;
        const int64_t k_batch = o.page_size > 0 ? static_cast<int64_t>(pages.size()) + 3 : o.varlen ? 1 : o.batch;
        const int64_t k_rows = o.page_size > 0 ? o.page_size : o.varlen ? l.total_k : o.k_len;
        k.make(k_batch, o.kv_heads, k_rows, o.d_k, o);
        v.make(k_batch, o.kv_heads, k_rows, o.d_v, o);
        if (o.varlen) q.view.batch = y.view.batch = 0;
        if (o.varlen && o.page_size == 0) k.view.batch = v.view.batch = 0;
        for (int64_t b = 0; b < o.batch; ++b) {
            const Sequence s = sequence_of(l, b);
            for (int64_t h = 0; h < o.heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) q.draw_row(b, h, s.q_begin + i, o.d_k, 1);
            for (int64_t h = 0; h < o.kv_heads; ++h)
                for (int64_t j = 0; j < s.k_len; ++j) {
                    draw_into(key_row(k.reading(), l, s, b, h, j), o.d_k, 1);
                    draw_into(key_row(v.reading(), l, s, b, h, j), o.d_v, 1);
                }
        }
        lse.assign(static_cast<size_t>(o.batch * o.heads * (q_rows() + 1)), 99);
        lse_element.assign(lse.size(), narrow<T>(99));
        p.q = q.reading(), p.k = k.reading(), p.v = v.reading(), p.y = y.view;
        p.lse.data = o.element_lse ? static_cast<void*>(lse_element.data()) : lse.data();
        p.lse.is_element = o.element_lse, p.lse.is_base2 = o.base2, p.lse.empty = o.base2 ? INFINITY : -INFINITY;
        p.lse.batch = o.varlen ? 0 : o.heads * q_rows(), p.lse.head = q_rows(), p.lse.row = 1;
        readable = {q.range(), k.range(), v.range()};
    }

    static void draw_into(const KV* row, int64_t width, float size) {
        for (int64_t x = 0; x < width; ++x) const_cast<KV*>(row)[x] = narrowed<KV>(draw(size));
    }

    // One row of probabilities before dropout, and the logarithm of its sum; false for a row without a visible key.
    bool weights_of(int64_t b, int64_t h, int64_t i, std::vector<double>& weight, std::vector<double>& ratio, double& log_sum) {
        const Sequence s = sequence_of(p.lengths, b);
        weight.assign(static_cast<size_t>(s.k_len), 0);
        ratio.assign(static_cast<size_t>(s.k_len), 0);
        double top = -INFINITY;
        std::vector<double> score(static_cast<size_t>(s.k_len), -INFINITY);
        for (int64_t j = 0; j < s.k_len; ++j) {
            if (!shows_key(p.rules, s, b, h, i, j)) continue;
            double dot = 0;
            const KV* const key = key_row(p.k, p.lengths, s, b, p.kv_head_of(h), j);
            for (int64_t x = 0; x < o.d_k; ++x) dot += wide(p.q.at(b, h, s.q_begin + i)[x]) * wide(key[x]);
            const double capped = capped_score<double>(p.rules, dot);
            ratio[static_cast<size_t>(j)] = capped_slope<double>(p.rules, capped);
            score[static_cast<size_t>(j)] = capped + score_addend<T, double>(p.rules, b, h, i, j);
            top = std::fmax(top, score[static_cast<size_t>(j)]);
        }
        if (top == -INFINITY) return false;
        double sum = o.sinks ? std::exp(static_cast<double>(sinks[static_cast<size_t>(h)]) - top) : 0;
        for (const double x : score) sum += std::exp(x - top);
        for (size_t j = 0; j < score.size(); ++j) weight[j] = std::exp(score[j] - top) / sum;
        log_sum = top + std::log(sum);
        return true;
    }

    double got_lse(int64_t b, int64_t h, int64_t row) const {
        const auto at = static_cast<size_t>(b * p.lse.batch + h * p.lse.head + row * p.lse.row);
        const double value = o.element_lse ? wide(lse_element[at]) : static_cast<double>(lse[at]);
        return value;
    }

    bool differs(const char* what, int64_t b, int64_t h, int64_t i, int64_t x, double got, double want, double bound) const {
        if (got == want || std::fabs(got - want) <= bound) return false;
        printf("%s[%d, %d, %d, %d] is %g, expected %g\n", what, static_cast<int>(b), static_cast<int>(h), static_cast<int>(i),
               static_cast<int>(x), got, want);
        return true;
    }

    bool check_forward() {
        const double bound = std::is_same_v<T, f16> ? 3e-3 : 2e-2;
        std::vector<double> weight, ratio, want(static_cast<size_t>(o.d_v));
        std::vector<bool> owned(static_cast<size_t>(q_rows()), !o.varlen);
        for (int64_t b = 0; b < o.batch; ++b) {
            const Sequence s = sequence_of(p.lengths, b);
            for (int64_t i = 0; i < s.q_len; ++i) owned[static_cast<size_t>(s.q_begin + i)] = true;
            for (int64_t h = 0; h < o.heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) {
                    double log_sum = 0;
                    const bool has_keys = weights_of(b, h, i, weight, ratio, log_sum);
                    std::fill(want.begin(), want.end(), 0.0);
                    for (int64_t j = 0; has_keys && j < s.k_len; ++j) {
                        double w = weight[static_cast<size_t>(j)];
                        if (w == 0) continue;
                        if (o.dropout > 0) w *= static_cast<double>(dropout_factor(p.rules.dropout, seed, b, h, i, j));
                        const KV* const value = key_row(p.v, p.lengths, s, b, p.kv_head_of(h), j);
                        for (int64_t x = 0; x < o.d_v; ++x) want[static_cast<size_t>(x)] += w * wide(value[x]);
                    }
                    const int64_t row = s.q_begin + i;
                    for (int64_t x = 0; x < o.d_v; ++x)
                        if (differs("y", b, h, i, x, wide(y.view.at(b, h, row)[x]), want[static_cast<size_t>(x)], bound))
                            return false;
                    const double lse_want = !has_keys ? static_cast<double>(p.lse.empty)
                                            : o.base2 ? log_sum / std::log(2.0)
                                                      : log_sum;
                    const double lse_bound =
                        o.element_lse ? 0.01 * (1 + std::fabs(lse_want)) : 1e-4 * (1 + std::fabs(lse_want));
                    if (differs("lse", b, h, i, 0, got_lse(b, h, row), lse_want, lse_bound)) return false;
                }
        }
        for (int64_t b = 0; b < q_batch(); ++b)
            for (int64_t h = 0; h < o.heads; ++h)
                for (int64_t row = 0; row < q_rows(); ++row) {
                    const T* const at = y.view.at(b, h, row);
                    for (int64_t x = owned[static_cast<size_t>(row)] ? o.d_v : 0; x < y.view.row; ++x)
                        if (differs("unowned y", b, h, row, x, wide(at[x]), x < o.d_v ? 0 : 99, 0)) return false;
                }
        return true;
    }
};

// Gradients of a problem, whose y and lse the formulas give.
template <class T>
struct BackwardProblem : Problem<T> {
    using Problem<T>::o;
    using Problem<T>::p;
    AttentionBackward<T> backward;
    Tensor<T> dy, dq, dk, dv;
    std::vector<T> dbias;
    std::vector<float> dsinks;

    explicit BackwardProblem(const Options& options) : Problem<T>(options) {
        const Lengths& l = p.lengths;
        const int64_t k_batch = o.varlen ? 1 : o.batch, k_rows = o.varlen ? l.total_k : o.k_len;
        dy.make(this->q_batch(), o.heads, this->q_rows(), o.d_v, o);
        dq.make(this->q_batch(), o.heads, this->q_rows(), o.d_k, o);
        dk.make(k_batch, o.kv_heads, k_rows, o.d_k, o);
        dv.make(k_batch, o.kv_heads, k_rows, o.d_v, o);
        this->y.fill(std::numeric_limits<float>::quiet_NaN());
        for (Tensor<T>* const to : {&dq, &dk, &dv}) to->fill(99);
        if (o.varlen) dy.view.batch = dq.view.batch = dk.view.batch = dv.view.batch = 0;
        for (int64_t b = 0; b < o.batch; ++b) {
            const Sequence s = sequence_of(l, b);
            for (int64_t h = 0; h < o.heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) set_row(s, b, h, i);
        }
        backward.forward = p;
        backward.y = this->y.reading(), backward.dy = dy.reading();
        backward.dq = dq.view, backward.dk = dk.view, backward.dv = dv.view;
        if (o.bias != Values::kNone) {
            dbias.assign(static_cast<size_t>(o.batch * o.heads * o.q_len * o.k_len), narrow<T>(99));
            backward.dbias = dbias.data();
        }
        if (o.sinks) {
            dsinks.assign(static_cast<size_t>(o.heads), 99);
            backward.dsinks = dsinks.data();
        }
        readable.push_back(dy.range());
        readable.push_back({nullptr, reinterpret_cast<const char*>(INTPTR_MAX)});
    }

    void set_row(const Sequence& s, int64_t b, int64_t h, int64_t i) {
        std::vector<double> weight, ratio, sum(static_cast<size_t>(o.d_v));
        double log_sum = 0;
        const int64_t row = s.q_begin + i;
        dy.draw_row(b, h, row, o.d_v, 1);
        if (this->weights_of(b, h, i, weight, ratio, log_sum))
            for (int64_t j = 0; j < s.k_len; ++j)
                for (int64_t x = 0; x < o.d_v; ++x)
                    sum[static_cast<size_t>(x)] +=
                        kept(b, h, i, j, weight[static_cast<size_t>(j)]) * wide(p.v.at(b, p.kv_head_of(h), s.k_begin + j)[x]);
        else
            log_sum = o.base2 ? INFINITY : -INFINITY;
        for (int64_t x = 0; x < o.d_v; ++x)
            this->y.view.at(b, h, row)[x] = narrow<T>(static_cast<float>(sum[static_cast<size_t>(x)]));
        const auto at = static_cast<size_t>(b * p.lse.batch + h * p.lse.head + row * p.lse.row);
        this->lse[at] = static_cast<float>(o.base2 ? log_sum / std::log(2.0) : log_sum);
    }

    double kept(int64_t b, int64_t h, int64_t i, int64_t j, double weight) const {
        return o.dropout > 0 ? weight * static_cast<double>(dropout_factor(p.rules.dropout, this->seed, b, h, i, j)) : weight;
    }

    bool check_rows(const char* name, const Tensor<T>& got, const std::vector<double>& want, int64_t width) const {
        const double bound = std::is_same_v<T, f16> ? 4e-3 : 3e-2;
        const int64_t rows = got.count / got.view.row;
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t x = 0; x < got.view.row; ++x) {
                const double w = x < width ? want[static_cast<size_t>(row * width + x)] : 99;
                if (this->differs(name, 0, 0, row, x, wide(got.view.data[row * got.view.row + x]), w,
                                  bound * (1 + std::fabs(w))))
                    return false;
            }
        return true;
    }

    bool check_backward() {
        const auto sums = [](const Tensor<T>& of, int64_t width) {
            return std::vector<double>(static_cast<size_t>(of.count / of.view.row * width));
        };
        std::vector<double> wanted_dq = sums(dq, o.d_k), wanted_dk = sums(dk, o.d_k), wanted_dv = sums(dv, o.d_v), weight,
                            ratio, wanted_dbias(dbias.size()), wanted_dsinks(static_cast<size_t>(o.heads));
        const auto row_of = [](const Tensor<T>& of, const T* row, int64_t width) {
            return static_cast<size_t>((row - of.view.data) / of.view.row * width);
        };
        for (int64_t b = 0; b < o.batch; ++b) {
            const Sequence s = sequence_of(p.lengths, b);
            for (int64_t h = 0; h < o.heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) {
                    double log_sum = 0, delta = 0;
                    if (!this->weights_of(b, h, i, weight, ratio, log_sum)) continue;
                    const int64_t row = s.q_begin + i, kv = p.kv_head_of(h);
                    const T *const g = dy.view.at(b, h, row), *const q = p.q.at(b, h, row);
                    for (int64_t x = 0; x < o.d_v; ++x) delta += wide(g[x]) * wide(this->y.view.at(b, h, row)[x]);
                    if (o.sinks)
                        wanted_dsinks[static_cast<size_t>(h)] -=
                            std::exp(static_cast<double>(this->sinks[static_cast<size_t>(h)]) - log_sum) * delta;
                    for (int64_t j = 0; j < s.k_len; ++j) {
                        const double w = weight[static_cast<size_t>(j)];
                        if (w == 0) continue;
                        const T *const k = p.k.at(b, kv, s.k_begin + j), *const v = p.v.at(b, kv, s.k_begin + j);
                        double dot = 0;
                        for (int64_t x = 0; x < o.d_v; ++x) dot += wide(g[x]) * wide(v[x]);
                        const double dscore = kept(b, h, i, j, w) * dot - w * delta,
                                     ds = dscore * ratio[static_cast<size_t>(j)];
                        if (!dbias.empty())
                            wanted_dbias[static_cast<size_t>(((b * o.heads + h) * o.q_len + i) * o.k_len + j)] = dscore;
                        const size_t to_q = row_of(dq, dq.view.at(b, h, row), o.d_k),
                                     to_k = row_of(dk, dk.view.at(b, kv, s.k_begin + j), o.d_k),
                                     to_v = row_of(dv, dv.view.at(b, kv, s.k_begin + j), o.d_v);
                        for (int64_t x = 0; x < o.d_k; ++x) {
                            wanted_dq[to_q + static_cast<size_t>(x)] += ds * wide(k[x]);
                            wanted_dk[to_k + static_cast<size_t>(x)] += ds * wide(q[x]);
                        }
                        for (int64_t x = 0; x < o.d_v; ++x)
                            wanted_dv[to_v + static_cast<size_t>(x)] += kept(b, h, i, j, w) * wide(g[x]);
                    }
                }
        }
        const double bound = std::is_same_v<T, f16> ? 4e-3 : 3e-2;
        for (size_t i = 0; i < dbias.size(); ++i)
            if (this->differs("dbias", 0, 0, 0, static_cast<int64_t>(i), wide(dbias[i]), wanted_dbias[i], bound)) return false;
        for (size_t h = 0; h < dsinks.size(); ++h)
            if (this->differs("dsinks", 0, static_cast<int64_t>(h), 0, 0, static_cast<double>(dsinks[h]), wanted_dsinks[h],
                              1e-3))
                return false;
        return check_rows("dq", dq, wanted_dq, o.d_k) && check_rows("dk", dk, wanted_dk, o.d_k) &&
               check_rows("dv", dv, wanted_dv, o.d_v);
    }
};

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Fused attention on fibers against loops in f64, forward and backward, for random problems with all rules: bands, softcap,
// slopes, bias, masks, blocks, sinks, dropout, packed sequences, pages, groups of heads, strides. What a problem must not
// read is NaN, and what it must write is NaN before.
#include "attention/flash/backward_simt.cuh"
#include "attention/flash/forward_simt.cuh"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "arrays.h"

namespace {

std::mt19937 generator(7);

int64_t below(int64_t bound) { return static_cast<int64_t>(generator() % static_cast<uint32_t>(bound)); }
bool one_in(int64_t n) { return below(n) == 0; }
float draw() { return static_cast<float>(below(4001) - 2000) / 1000; }

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
double number(T x) {
    return static_cast<double>(widen(x));
}

// A tensor [batch, head, row, element] in memory that is NaN elsewhere.
template <class T>
struct Heads {
    std::vector<T> memory;
    HeadsView<T> view;
    int64_t extent = 0;

    static T nan() { return narrow<T>(std::numeric_limits<compute_t<T>>::quiet_NaN()); }

    void make(int64_t batch, int64_t heads, int64_t rows, int64_t d) {
        extent = d;
        const int64_t gap = one_in(2) ? 0 : below(9);
        const bool is_row_major = one_in(2);
        view.row = is_row_major ? (d + gap) * heads : d + gap;
        view.head = is_row_major ? d + gap : (d + gap) * rows;
        view.batch = (d + gap) * heads * rows;
        const int64_t offset = one_in(2) ? 0 : below(4), count = view.batch * batch;
        memory.assign(static_cast<size_t>(count + 24), nan());
        uintptr_t first = reinterpret_cast<uintptr_t>(memory.data());
        first = (first + 31) / 32 * 32;
        view.data = reinterpret_cast<T*>(first) + offset;
        if (one_in(4) && rows > 0) {  // rows in reverse
            view.data += view.row * (rows - 1);
            view.row = -view.row;
        }
    }
    void fill(int64_t b, int64_t h, int64_t row) {
        for (int64_t x = 0; x < extent; ++x) view.at(b, h, row)[x] = narrow<T>(static_cast<compute_t<T>>(draw()));
    }
    HeadsView<const T> read() const { return {view.data, view.batch, view.head, view.row}; }
};

struct Sum {
    std::vector<double> y;
    double lse = 0;
};

// The choice of the library, or tiles of another size.
template <class T>
Status run_forward(const AttentionForward<T>& p) {
    const int64_t tile = below(4);
    if constexpr (!std::is_same_v<T, double>) {
        const bool has_large_tile = tile > 0 && p.batch > 0 && p.lengths.q_len > 0;
        if (has_large_tile) BK_TRY(attention_simt::launch_weights(Launch{}, p));
        if constexpr (std::is_same_v<T, float>) {
            if (has_large_tile && tile == 1) return attention_simt::launch_forward<T, 4, 2>(Launch{}, p);
            if (has_large_tile && tile == 2) return attention_simt::launch_forward<T, 8, 1>(Launch{}, p);
        }
        if (has_large_tile) return attention_simt::launch_forward<T, 8, 2>(Launch{}, p);
    }
    return attention_simt::forward(Launch{}, p);
}

template <class T>
struct Problem {
    AttentionForward<T> p;
    AttentionBackward<T> g;
    Heads<T> q, k, v, y, dy, dq, dk, dv;
    std::vector<int32_t> q_offsets, k_offsets, k_lens, page_ids, page_offsets, last_page_len;
    std::vector<float> slopes, sinks, bias_f32, dsinks;
    std::vector<T> bias, dbias, weights_t, lse_t;
    std::vector<float> weights_f32, lse_f32;
    std::vector<uint8_t> mask, blocks;
    std::vector<char> workspace;
    uint64_t seed = 0;
    bool is_packed = false, is_paged = false;
    int number_of = 0;
    int failures = 0;

    void check(const char* what, double got, double want, double size) {
        const double bound = (sizeof(T) == 2 ? 1.5e-2 : sizeof(T) == 4 ? 3e-5 : 1e-9) * std::fmax(size, 1.0);
        if (std::fabs(got - want) <= bound || got == want || (std::isnan(got) && std::isnan(want))) return;
        if (failures++ < 3)
            printf("problem %d, %d bytes, %s: %.9g, expected %.9g\n", number_of, (int)sizeof(T), what, got, want);
    }

    int64_t q_rows() const { return is_packed ? p.lengths.total_q : p.lengths.q_len; }
    int64_t k_rows() const { return is_packed ? p.lengths.total_k : p.lengths.k_len; }

    void make(int64_t q_len, int64_t k_len, int64_t d_k, int64_t d_v, bool is_training) {
        Lengths& lengths = p.lengths;
        p.batch = 1 + below(3);
        p.kv_heads = 1 + below(2);
        p.heads = p.kv_heads * (1 + below(3));
        p.d_k = d_k, p.d_v = d_v;
        lengths.q_len = q_len, lengths.k_len = k_len;
        is_packed = one_in(4);
        is_paged = !is_training && !is_packed && one_in(4);
        if (is_packed) {
            const auto offsets = [&](std::vector<int32_t>& to, int64_t most, int64_t& total) {
                to.push_back(static_cast<int32_t>(below(3)));
                for (int64_t b = 0; b < p.batch; ++b)
                    to.push_back(to.back() + static_cast<int32_t>(one_in(5) ? 0 : below(most + 3)));
                total = to.back() + below(4);
            };
            offsets(q_offsets, q_len, lengths.total_q);
            offsets(k_offsets, k_len, lengths.total_k);
            lengths.q_offsets = q_offsets.data(), lengths.k_offsets = k_offsets.data();
        }
        const int64_t batches = is_packed ? 1 : p.batch;
        q.make(batches, p.heads, q_rows(), d_k), y.make(batches, p.heads, q_rows(), d_v),
            dy.make(batches, p.heads, q_rows(), d_v);
        dq.make(batches, p.heads, q_rows(), d_k);
        dk.make(batches, p.kv_heads, k_rows(), d_k), dv.make(batches, p.kv_heads, k_rows(), d_v);
        if (is_paged) {
            lengths.page_size = 1 + below(9);
            const int64_t most = ceil_div(k_len, lengths.page_size);
            int64_t pages = 0;
            page_offsets.push_back(0);
            for (int64_t b = 0; b < p.batch; ++b) {
                const int64_t own = one_in(5) ? 0 : below(most + 1);
                pages += own;
                page_offsets.push_back(static_cast<int32_t>(pages));
                last_page_len.push_back(static_cast<int32_t>(1 + below(lengths.page_size)));
            }
            lengths.k_len = k_len = most * lengths.page_size;
            for (int64_t i = 0; i < pages + 5; ++i) page_ids.push_back(static_cast<int32_t>(i));
            std::shuffle(page_ids.begin(), page_ids.end(), generator);
            k.make(pages + 5, p.kv_heads, lengths.page_size, d_k), v.make(pages + 5, p.kv_heads, lengths.page_size, d_v);
            lengths.page_ids = page_ids.data(), lengths.page_offsets = page_offsets.data();
            lengths.last_page_len = last_page_len.data();
        } else {
            k.make(batches, p.kv_heads, k_rows(), d_k), v.make(batches, p.kv_heads, k_rows(), d_v);
        }
        if (one_in(3)) {
            for (int64_t b = 0; b < p.batch; ++b) k_lens.push_back(static_cast<int32_t>(below(k_len + 4) - 1));
            lengths.k_lens = k_lens.data();
        }
        ScoreRules& rules = p.rules;
        rules.scale = 0.7f / std::sqrt(static_cast<float>(d_k > 0 ? d_k : 1));
        rules.band = Band::of(one_in(3), one_in(3) ? below(k_len + 2) : -1, one_in(3) ? below(k_len + 2) : -1, one_in(2));
        if (one_in(4) && !rules.band.aligns_ends) rules.band.shift = below(40) - 20;
        if (one_in(4)) rules.softcap = 1.5f;
        const int64_t heads = p.heads, scores = p.batch * heads * q_len * k_len;
        if (one_in(4)) {
            for (int64_t i = 0; i < p.batch * heads; ++i) slopes.push_back(0.02f * draw());
            rules.slopes = slopes.data(), rules.slopes_step = one_in(2) ? heads : 0;
        }
        const auto strides = [&](ScoresView& view) {
            view.batch = one_in(3) ? 0 : heads * q_len * k_len, view.head = one_in(3) ? 0 : q_len * k_len;
            view.row = one_in(3) ? 0 : k_len, view.column = 1;
        };
        if (one_in(4)) {
            const bool is_f32 = one_in(2);
            for (int64_t i = 0; i < scores; ++i) {
                const float value = one_in(9) ? -INFINITY : draw();
                bias_f32.push_back(value), bias.push_back(narrow<T>(value));
            }
            rules.bias.data = is_f32 ? static_cast<const void*>(bias_f32.data()) : bias.data();
            rules.bias.values = is_f32 ? Values::kF32 : Values::kElement;
            strides(rules.bias);
        }
        if (one_in(4)) {
            for (int64_t i = 0; i < scores; ++i) mask.push_back(one_in(3) ? 0 : static_cast<uint8_t>(1 + below(255)));
            rules.mask.data = mask.data(), rules.mask.values = Values::kKeep;
            strides(rules.mask);
        }
        if (one_in(4)) {
            BlockMask& m = rules.blocks;
            m.size = 1 + below(90);
            const int64_t high = ceil_div(q_len, m.size), wide = ceil_div(k_len, m.size);
            for (int64_t i = 0; i < p.batch * heads * high * wide; ++i) blocks.push_back(static_cast<uint8_t>(one_in(2)));
            m.blocks = blocks.data(), m.row = wide, m.head = one_in(3) ? 0 : high * wide;
            m.batch = one_in(3) ? 0 : heads * high * wide;
        }
        if (one_in(3)) {
            for (int64_t h = 0; h < heads; ++h) sinks.push_back(draw());
            rules.sinks = sinks.data();
        }
        if (one_in(3)) {
            seed = generator();
            rules.dropout = {0.3f, &seed};
        }
        LseView& lse = p.lse;
        lse.is_element = one_in(2), lse.is_base2 = one_in(2), lse.empty = one_in(2) ? INFINITY : -INFINITY;
        lse.head = q_rows(), lse.batch = is_packed ? 0 : heads * q_rows(), lse.row = 1;
        lse_t.assign(static_cast<size_t>(batches * heads * q_rows()), Heads<T>::nan());
        lse_f32.assign(lse_t.size(), NAN);
        lse.data = lse.is_element ? static_cast<void*>(lse_t.data()) : lse_f32.data();
        if (one_in(3)) {
            p.weights.values = one_in(2) ? Values::kF32 : Values::kElement;
            weights_t.assign(static_cast<size_t>(scores), Heads<T>::nan()),
                weights_f32.assign(static_cast<size_t>(scores), NAN);
            p.weights.data = p.weights.values == Values::kF32 ? static_cast<void*>(weights_f32.data()) : weights_t.data();
        }
        for (int64_t b = 0; b < p.batch; ++b) {
            const Sequence s = sequence_of(lengths, b);
            for (int64_t h = 0; h < heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) q.fill(b_of(b), h, s.q_begin + i), dy.fill(b_of(b), h, s.q_begin + i);
            for (int64_t kv = 0; kv < p.kv_heads; ++kv)
                for (int64_t j = 0; j < s.k_len; ++j) {
                    bool is_seen = false;
                    for (int64_t h = kv * (heads / p.kv_heads); h < (kv + 1) * (heads / p.kv_heads); ++h)
                        for (int64_t i = 0; i < s.q_len; ++i) is_seen |= sees(s, b, h, i, j);
                    if (!is_seen) continue;
                    int64_t at_b = b_of(b), row = s.k_begin + j;
                    if (is_paged)
                        at_b = page_ids[static_cast<size_t>(s.k_begin + j / lengths.page_size)], row = j % lengths.page_size;
                    k.fill(at_b, kv, row), v.fill(at_b, kv, row);
                }
        }
        p.q = q.read(), p.k = k.read(), p.v = v.read(), p.y = y.view;
        if (is_packed) p.q.batch = p.k.batch = p.v.batch = p.y.batch = 0;
    }

    int64_t b_of(int64_t b) const { return is_packed ? 0 : b; }

    double bias_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
        const ScoresView& view = p.rules.bias;
        if (view.values == Values::kNone) return 0;
        const size_t at = static_cast<size_t>(b * view.batch + h * view.head + i * view.row + j);
        return view.values == Values::kF32 ? bias_f32[at] : number(bias[at]);
    }

    bool sees(const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t j) const {
        const ScoreRules& rules = p.rules;
        const int64_t distance = j - i - (rules.band.aligns_ends ? s.k_len - s.q_len : rules.band.shift);
        if (distance > rules.band.right || -distance > rules.band.left) return false;
        const ScoresView& m = rules.mask;
        if (m.values != Values::kNone && mask[static_cast<size_t>(b * m.batch + h * m.head + i * m.row + j)] == 0) return false;
        const BlockMask& bm = rules.blocks;
        if (bm.blocks != nullptr && bm.blocks[b * bm.batch + h * bm.head + i / bm.size * bm.row + j / bm.size] == 0)
            return false;
        return bias_at(b, h, i, j) != -kInfinity;
    }

    double dot(const T* a, const T* b, int64_t count) const {
        double sum = 0;
        for (int64_t x = 0; x < count; ++x) sum += number(a[x]) * number(b[x]);
        return sum;
    }

    double capped(const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t j) const {
        const T* const row = key_row(p.k, p.lengths, s, b, p.kv_head_of(h), j);
        const double scaled = static_cast<double>(p.rules.scale) * dot(p.q.at(b, h, s.q_begin + i), row, p.d_k);
        const double cap = p.rules.softcap;
        return cap > 0 ? cap * std::tanh(scaled / cap) : scaled;
    }
    double addend(int64_t b, int64_t h, int64_t i, int64_t j) const {
        const double slope = slopes.empty() ? 0 : slopes[static_cast<size_t>(b * p.rules.slopes_step + h)];
        return slope * static_cast<double>(j - i) + bias_at(b, h, i, j);
    }
    double kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
        return p.rules.dropout.probability > 0 ? dropout_factor(p.rules.dropout, seed, b, h, i, j) : 1;
    }

    double& stored_lse(int64_t b, int64_t h, int64_t row, double& to) const {
        const size_t at = static_cast<size_t>(b * p.lse.batch + h * p.lse.head + row);
        to = p.lse.is_element ? number(lse_t[at]) : static_cast<double>(lse_f32[at]);
        return to;
    }

    // Output and lse of a row.
    Sum row(const Sequence& s, int64_t b, int64_t h, int64_t i) {
        std::vector<double> score(static_cast<size_t>(s.k_len), -kInfinity);
        double max = -kInfinity, sum = 0;
        for (int64_t j = 0; j < s.k_len; ++j) {
            if (sees(s, b, h, i, j)) score[static_cast<size_t>(j)] = capped(s, b, h, i, j) + addend(b, h, i, j);
            max = std::fmax(max, score[static_cast<size_t>(j)]);
        }
        const bool is_empty = max == -kInfinity;
        Sum result{std::vector<double>(static_cast<size_t>(p.d_v), 0.0), p.lse.empty};
        if (!is_empty) {
            for (double each : score) sum += std::exp(each - max);
            if (!sinks.empty()) sum += std::exp(sinks[static_cast<size_t>(h)] - max);
            result.lse = max + std::log(sum);
        }
        for (int64_t j = 0; j < p.lengths.k_len; ++j) {
            const bool is_seen = j < s.k_len && score[static_cast<size_t>(j)] != -kInfinity;
            const double weight = is_seen ? std::exp(score[static_cast<size_t>(j)] - result.lse) : 0;
            const size_t at = static_cast<size_t>(((b * p.heads + h) * p.lengths.q_len + i) * p.lengths.k_len + j);
            if (p.weights.values == Values::kF32) check("weight", weights_f32[at], weight, sizeof(T) == 8 ? 1e3 : 1);
            if (p.weights.values == Values::kElement) check("weight", number(weights_t[at]), weight, 1);
            if (!is_seen) continue;
            const T* const value = key_row(p.v, p.lengths, s, b, p.kv_head_of(h), j);
            for (int64_t x = 0; x < p.d_v; ++x)
                result.y[static_cast<size_t>(x)] += weight * kept(b, h, i, j) * number(value[x]);
        }
        if (!is_empty && p.lse.is_base2) result.lse /= std::log(2.0);
        return result;
    }

    void check_forward() {
        if (run_forward(p) != Status::kOk) ++failures;
        std::vector<char> owned(static_cast<size_t>(q_rows()), 0);
        for (int64_t b = 0; b < p.batch; ++b) {
            const Sequence s = sequence_of(p.lengths, b);
            for (int64_t i = 0; i < s.q_len; ++i) owned[static_cast<size_t>(s.q_begin + i)] = 1;
            for (int64_t h = 0; h < p.heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) {
                    const Sum want = row(s, b, h, i);
                    double lse;
                    check("lse", stored_lse(b, h, s.q_begin + i, lse), want.lse,
                          !p.lse.is_element && sizeof(T) == 8 ? 1e4 : std::fabs(want.lse));
                    for (int64_t x = 0; x < p.d_v; ++x)
                        check("y", number(p.y.at(b, h, s.q_begin + i)[x]), want.y[static_cast<size_t>(x)], 1);
                }
            for (int64_t i = s.q_len; i < p.lengths.q_len && p.weights.values != Values::kNone; ++i)
                for (int64_t x = 0; x < p.heads * p.lengths.k_len; ++x) {
                    const int64_t h = x / p.lengths.k_len, j = x % p.lengths.k_len;
                    const size_t at = static_cast<size_t>(((b * p.heads + h) * p.lengths.q_len + i) * p.lengths.k_len + j);
                    check("unused weight", p.weights.values == Values::kF32 ? weights_f32[at] : number(weights_t[at]), 0, 0);
                }
        }
        for (int64_t r = 0; r < q_rows() && is_packed; ++r)
            for (int64_t h = 0; h < p.heads && !owned[static_cast<size_t>(r)]; ++h) {
                double lse;
                check("unowned lse", stored_lse(0, h, r, lse), p.lse.empty, 0);
                for (int64_t x = 0; x < p.d_v; ++x) check("unowned y", number(p.y.at(0, h, r)[x]), 0, 0);
            }
    }

    void check_backward() {
        const int64_t scores = p.batch * p.heads * p.lengths.q_len * p.lengths.k_len;
        dbias.assign(static_cast<size_t>(scores), Heads<T>::nan());
        dsinks.assign(static_cast<size_t>(p.heads), NAN);
        g.forward = p;
        g.forward.y = {};
        g.y = y.read(), g.dy = dy.read(), g.dq = dq.view, g.dk = dk.view, g.dv = dv.view;
        if (is_packed) g.y.batch = g.dy.batch = g.dq.batch = g.dk.batch = g.dv.batch = 0;
        const bool has_dbias = one_in(2);
        if (has_dbias) g.dbias = dbias.data();
        if (!sinks.empty()) g.dsinks = dsinks.data();
        if (one_in(5)) g.dq = {};
        if (one_in(5)) g.dk = {};
        if (one_in(5)) g.dv = {};
        if (one_in(2)) workspace.resize(attention_simt::backward_workspace(g));
        if (attention_simt::backward(Launch{workspace.data(), workspace.size(), nullptr}, g) != Status::kOk) ++failures;
        const size_t q_all = static_cast<size_t>((is_packed ? 1 : p.batch) * p.heads * q_rows());
        const size_t k_all = static_cast<size_t>((is_packed ? 1 : p.batch) * p.kv_heads * k_rows());
        std::vector<double> dq_sum(q_all * p.d_k), dk_sum(k_all * p.d_k), dv_sum(k_all * p.d_v), db(dbias.size()),
            ds_sum(p.heads);
        for (int64_t b = 0; b < p.batch; ++b) {
            const Sequence s = sequence_of(p.lengths, b);
            for (int64_t h = 0; h < p.heads; ++h)
                for (int64_t i = 0; i < s.q_len; ++i) {
                    const int64_t r = s.q_begin + i, kv = p.kv_head_of(h);
                    double lse;
                    if (!std::isfinite(stored_lse(b, h, r, lse))) continue;
                    if (p.lse.is_base2) lse *= std::log(2.0);
                    const double delta = dot(g.y.at(b, h, r), g.dy.at(b, h, r), p.d_v);
                    if (!sinks.empty()) ds_sum[h] -= std::exp(sinks[static_cast<size_t>(h)] - lse) * delta;
                    for (int64_t j = 0; j < s.k_len; ++j) {
                        if (!sees(s, b, h, i, j)) continue;
                        const double c = capped(s, b, h, i, j), weight = std::exp(c + addend(b, h, i, j) - lse);
                        const T *const key = key_row(p.k, p.lengths, s, b, kv, j), *const value =
                                                                                       key_row(p.v, p.lengths, s, b, kv, j);
                        const double factor = kept(b, h, i, j), dp = factor * dot(g.dy.at(b, h, r), value, p.d_v);
                        const double ds = weight * (dp - delta), cap = p.rules.softcap;
                        const double dot_gradient = ds * p.rules.scale * (cap > 0 ? 1 - c / cap * (c / cap) : 1);
                        db[static_cast<size_t>(((b * p.heads + h) * p.lengths.q_len + i) * p.lengths.k_len + j)] = ds;
                        const size_t at_q = static_cast<size_t>((b_of(b) * p.heads + h) * q_rows() + r);
                        const size_t at_k = static_cast<size_t>((b_of(b) * p.kv_heads + kv) * k_rows() + s.k_begin + j);
                        for (int64_t x = 0; x < p.d_k; ++x) {
                            dq_sum[at_q * p.d_k + x] += dot_gradient * number(key[x]);
                            dk_sum[at_k * p.d_k + x] += dot_gradient * number(p.q.at(b, h, r)[x]);
                        }
                        for (int64_t x = 0; x < p.d_v; ++x)
                            dv_sum[at_k * p.d_v + x] += weight * factor * number(g.dy.at(b, h, r)[x]);
                    }
                }
        }
        const auto compare = [&](const char* what, const HeadsView<T>& got, const std::vector<double>& want, int64_t heads,
                                 int64_t rows, int64_t d) {
            for (size_t x = 0; x < want.size() && got.data != nullptr; ++x) {
                const int64_t row = static_cast<int64_t>(x) / d;
                check(what, number(got.at(row / rows / heads, row / rows % heads, row % rows)[static_cast<int64_t>(x) % d]),
                      want[x], std::fmax(4, std::fabs(want[x])));
            }
        };
        compare("dq", g.dq, dq_sum, p.heads, q_rows(), p.d_k);
        compare("dk", g.dk, dk_sum, p.kv_heads, k_rows(), p.d_k);
        compare("dv", g.dv, dv_sum, p.kv_heads, k_rows(), p.d_v);
        for (size_t x = 0; x < db.size() && has_dbias; ++x)
            check("dbias", number(dbias[x]), db[x], std::fmax(4, std::fabs(db[x])));
        for (int64_t h = 0; h < p.heads && !sinks.empty(); ++h)
            check("dsinks", dsinks[h], ds_sum[h], (sizeof(T) == 8 ? 1e3 : 4) * std::fmax(1, std::fabs(ds_sum[h])));
    }
};

template <class T>
int check_problem(int number_of, int64_t q_len, int64_t k_len, int64_t d_k, int64_t d_v, bool is_training) {
    Problem<T> problem;
    problem.number_of = number_of;
    problem.make(q_len, k_len, d_k, d_v, is_training);
    problem.check_forward();
    if (is_training) problem.check_backward();
    return problem.failures;
}

template <class T>
int check_random(int number_of) {
    constexpr int64_t kLengths[] = {1, 2, 5, 16, 17, 33, 63, 64, 65, 100, 130},
                      kExtents[] = {1, 3, 8, 16, 20, 40, 64, 72, 130, 200};
    const auto length = [&] { return kLengths[below(11)]; };
    const auto extent = [&] { return kExtents[below(10)]; };
    const int64_t q_len = length(), k_len = length(), d_k = extent(), d_v = one_in(2) ? d_k : extent();
    return check_problem<T>(number_of, q_len, k_len, d_k, d_v, one_in(2));
}

// A causal mask hides keys that other rows of the tile see: NaN in them and in their queries stay there.
template <class T>
int check_poison() {
    constexpr int64_t kLength = 40, kExtent = 8, kBad = 25;
    Heads<T> q, k, v, y, dy, dq, dk, dv;
    for (Heads<T>* each : {&q, &k, &v, &y, &dy, &dq, &dk, &dv}) each->make(1, 1, kLength, kExtent);
    for (Heads<T>* each : {&q, &k, &v, &dy})
        for (int64_t r = 0; r < kLength; ++r) each->fill(0, 0, r);
    int failures = 0;
    for (int what = 0; what < 3; ++what) {
        AttentionForward<T> p;
        p.batch = p.heads = p.kv_heads = 1, p.d_k = p.d_v = kExtent;
        p.lengths.q_len = p.lengths.k_len = kLength;
        p.rules.band = Band::of(true, -1, -1, false);
        p.q = q.read(), p.k = k.read(), p.v = v.read(), p.y = y.view;
        float lse[kLength];
        p.lse.data = lse, p.lse.row = 1;
        for (int64_t r = 0; r < kLength; ++r) {
            q.fill(0, 0, r), k.fill(0, 0, r), v.fill(0, 0, r);
        }
        Heads<T>& bad = what == 0 ? k : what == 1 ? v : q;
        for (int64_t x = 0; x < kExtent; ++x) bad.view.at(0, 0, kBad)[x] = Heads<T>::nan();
        if (attention_simt::forward(Launch{}, p) != Status::kOk) ++failures;
        AttentionBackward<T> g;
        g.forward = p, g.y = y.read(), g.dy = dy.read(), g.dq = dq.view, g.dk = dk.view, g.dv = dv.view;
        if (attention_simt::backward(Launch{}, g) != Status::kOk) ++failures;
        for (int64_t r = 0; r < kLength; ++r) {
            const bool is_bad = what == 2 ? r == kBad : r >= kBad;
            const double at_y = number(y.view.at(0, 0, r)[1]), at_dq = number(dq.view.at(0, 0, r)[1]);
            if (std::isnan(at_y) != is_bad || (!is_bad && std::isnan(at_dq)))
                ++failures, printf("NaN in operand %d at %d: row %d has y %g, dq %g\n", what, (int)kBad, (int)r, at_y, at_dq);
            const bool key_may_be_bad = what == 2 ? r <= kBad : false;
            const double at_dk = number(dk.view.at(0, 0, r)[1]), at_dv = number(dv.view.at(0, 0, r)[1]);
            if (!key_may_be_bad && what == 2 && (std::isnan(at_dk) || std::isnan(at_dv)))
                ++failures, printf("NaN in query %d: key %d has dk %g, dv %g\n", (int)kBad, (int)r, at_dk, at_dv);
        }
    }
    return failures;
}

// A score of +inf or NaN makes its row NaN; a row of -inf is empty.
int check_infinite_scores() {
    constexpr int64_t kRows = 70, kKeys = 80, kExtent = 8;
    Heads<float> q, k, v, y;
    q.make(1, 1, kRows, kExtent), k.make(1, 1, kKeys, kExtent), v.make(1, 1, kKeys, kExtent), y.make(1, 1, kRows, kExtent);
    for (int64_t i = 0; i < kRows; ++i) q.fill(0, 0, i);
    for (int64_t j = 0; j < kKeys; ++j) k.fill(0, 0, j), v.fill(0, 0, j);
    std::vector<float> bias(kRows * kKeys, 0.0f), lse(kRows, 5.0f);
    bias[3 * kKeys + 2] = bias[40 * kKeys + 79] = INFINITY, bias[50 * kKeys + 70] = NAN;
    for (int64_t j = 0; j < kKeys; ++j) bias[static_cast<size_t>(60 * kKeys + j)] = -INFINITY;
    AttentionForward<float> p;
    p.batch = p.heads = p.kv_heads = 1, p.d_k = p.d_v = kExtent, p.lengths.q_len = kRows, p.lengths.k_len = kKeys;
    p.q = q.read(), p.k = k.read(), p.v = v.read(), p.y = y.view;
    p.lse.data = lse.data(), p.lse.row = 1, p.lse.empty = INFINITY;
    p.rules.bias.data = bias.data(), p.rules.bias.values = Values::kF32;
    p.rules.bias.row = kKeys, p.rules.bias.column = 1;
    int failures = attention_simt::forward(Launch{}, p) != Status::kOk;
    for (int64_t i = 0; i < kRows; ++i) {
        const bool is_nan = i == 3 || i == 40 || i == 50, is_empty = i == 60;
        const float got = y.view.at(0, 0, i)[5], sum = lse[static_cast<size_t>(i)];
        if (std::isnan(got) != is_nan || std::isnan(sum) != is_nan || (is_empty && (got != 0 || sum != INFINITY)))
            ++failures, printf("row %d: y %g, lse %g\n", static_cast<int>(i), got, sum);
    }
    return failures;
}

// Extents of 0, and head dimensions of many chunks.
int check_extents() {
    constexpr int64_t kExtents[][4] = {{0, 5, 4, 4}, {5, 0, 4, 4},      {5, 7, 0, 4},     {5, 7, 4, 0},
                                       {0, 0, 4, 4}, {20, 9, 300, 520}, {3, 70, 576, 512}};
    int failures = 0, number_of = 1000000;
    for (const auto& e : kExtents)
        for (int trial = 0; trial < 3; ++trial, ++number_of) {
            generator.seed(static_cast<uint32_t>(number_of));
            failures += check_problem<float>(number_of, e[0], e[1], e[2], e[3], true);
            failures += check_problem<double>(number_of, e[0], e[1], e[2], e[3], true);
        }
    return failures;
}

// Without sequences the rows of packed tensors are owned by none: zeros.
int check_no_sequences() {
    constexpr int64_t kRows = 20, kExtent = 8;
    Heads<float> q, y, dq, dk;
    for (Heads<float>* each : {&q, &y, &dq, &dk}) each->make(1, 2, kRows, kExtent);
    const int32_t offsets[1] = {0};
    float lse[2 * kRows];
    AttentionForward<float> p;
    p.heads = p.kv_heads = 2, p.d_k = p.d_v = kExtent;
    p.lengths.q_len = p.lengths.k_len = 7, p.lengths.total_q = p.lengths.total_k = kRows;
    p.lengths.q_offsets = p.lengths.k_offsets = offsets;
    p.q = p.k = p.v = q.read(), p.y = y.view;
    p.lse.data = lse, p.lse.head = kRows, p.lse.row = 1, p.lse.empty = INFINITY;
    AttentionBackward<float> g;
    g.forward = p, g.y = g.dy = y.read(), g.dq = dq.view, g.dk = dk.view;
    bool is_right = attention_simt::forward(Launch{}, p) == Status::kOk && attention_simt::backward(Launch{}, g) == Status::kOk;
    for (int64_t x = 0; x < 2 * kRows * kExtent; ++x) {
        const int64_t h = x / kExtent / kRows, row = x / kExtent % kRows, e = x % kExtent;
        is_right &= y.view.at(0, h, row)[e] == 0 && dq.view.at(0, h, row)[e] == 0 && dk.view.at(0, h, row)[e] == 0;
        is_right &= lse[h * kRows + row] == INFINITY;
    }
    if (!is_right) puts("rows that no sequence owns are not empty");
    return !is_right;
}

}  // namespace

int main(int count, char** arguments) {
    const int problems = count > 1 ? atoi(arguments[1]) : 40, first = count > 2 ? atoi(arguments[2]) : 0;
    int failures =
        check_poison<float>() + check_poison<bf16>() + check_infinite_scores() + check_no_sequences() + check_extents();
    for (int n = first; n < first + problems && failures < 20; ++n) {
        generator.seed(static_cast<uint32_t>(n));
        failures += n % 4 == 0   ? check_random<bf16>(n)
                    : n % 4 == 1 ? check_random<double>(n)
                    : n % 8 == 2 ? check_random<f16>(n)
                                 : check_random<float>(n);
    }
    if (failures == 0) printf("ok\n");
    return failures != 0;
}

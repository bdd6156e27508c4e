// SPDX-License-Identifier: Apache-2.0
// Gradients of fused attention on the CPU in tiles (attention/flash/tiles_cpu.h): P^T = exp(K Q^T - lse) and
// dS^T = P^T (V dY^T - delta) are computed once for
//
//   dV += P^T dY,  dK += dS^T Q,  dQ^T += K^T dS^T.
//
// A task owns a chunk of the keys of one head and goes through all queries of its group. The sums of dK and dV stay in
// its scratch; sums of dQ over chunks are added in order. How many chunks there are follows from the problem alone, so
// that bits do not depend on the number of threads.
#pragma once

#include <atomic>

#include "attention/flash/backward_rows_cpu.h"
#include "attention/flash/score_tile_cpu.h"
#include "core/abi/workspace.h"

namespace bk::attention_cpu {

// Chunks of the keys, each a multiple of kKeys keys.
struct KeyChunks {
    static constexpr int64_t kLeastKeys = 512, kMost = 8, kTasks = 64;
    static constexpr int64_t kMostBytes = int64_t{64} << 20;  // of the partial sums of dQ
    int64_t keys, count;

    // `size`: bytes of an element of a partial sum.
    template <class T>
    static KeyChunks of(const AttentionForward<T>& f, int64_t tile, int64_t size) {
        const int64_t k_len = std::max<int64_t>(f.lengths.k_len, 1), partial = dq_elements(f) * size;
        const int64_t by_tasks = f.is_batch_invariant ? 1 : ceil_div(kTasks, f.batch * f.kv_heads);
        const int64_t most = clamp_row(std::min(by_tasks, kMostBytes / std::max<int64_t>(partial, 1)), 1, kMost);
        const int64_t keys = ceil_div(std::max(ceil_div(k_len, most), std::min(k_len, kLeastKeys)), tile) * tile;
        return {keys, ceil_div(k_len, keys)};
    }
    template <class T>
    static int64_t dq_elements(const AttentionForward<T>& f) {
        return f.batch * f.heads * f.lengths.q_len * f.d_k;
    }
    // Bounds that never fall as an extent grows, unlike the numbers of of(): tasks, and bytes of the partial sums of dQ.
    template <class T>
    static int64_t most_tasks(const AttentionForward<T>& f) {
        return f.batch * f.kv_heads * ceil_div(std::max<int64_t>(f.lengths.k_len, 1), kLeastKeys);
    }
    template <class T>
    static int64_t most_partial_bytes(const AttentionForward<T>& f, int64_t size) {
        if (f.lengths.k_len <= kLeastKeys) return 0;
        const int64_t heads = std::min(f.batch * f.kv_heads, kTasks - 1);
        const int64_t partials = std::min(kMost * heads, kTasks + heads), group = f.heads / f.kv_heads;
        return std::min(partials * group * f.lengths.q_len * f.d_k * size, kMostBytes) / 64 * 64 + 64;
    }
};

template <class T, class Tile>
struct BackwardTiles {
    using C = typename Tile::C;
    using E = typename Tile::E;
    using Unit = typename Tile::Unit;
    using Same = Tiles<E, Tile::kIsPairs ? Packing::kBf16Pairs : sizeof(C) == 8 ? Packing::kF64 : Packing::kF32, Tile::kBytes>;
    using Panel = QueryPanel<C, Tile::kNr>;  // `max` holds lse, `sum` holds delta
    using Rows = KeyRows<Tile, T>;
    static constexpr int kMr = Tile::kMr, kNr = Tile::kNr;
    static constexpr int64_t kPanels = 96 / kNr, kQueries = kPanels * kNr, kKeys = 64 / (2 * kMr) * (2 * kMr);

    const AttentionBackward<T>& p;
    uint64_t seed;
    KeyChunks chunks;
    C* dq_partials;  // [chunk, batch, head, query, d_k] if there are several chunks

    const AttentionForward<T>& forward() const { return p.forward; }
    int64_t d_k() const { return forward().d_k; }
    int64_t d_v() const { return forward().d_v; }
    static int64_t wide_panels(int64_t depth) { return ceil_div<int64_t>(depth, kNr); }
    static int64_t narrow_panels(int64_t depth) { return ceil_div<int64_t>(depth, kMr); }
    int64_t kt_bytes() const { return narrow_panels(d_k()) * Tile::a_bytes(kKeys); }
    int64_t dq_bytes() const { return Tile::padded(d_k()) * kNr * static_cast<int64_t>(sizeof(C)); }

    struct Scratch {
        Panel* panels;
        C *dk, *dv;                                       // [keys / MR][d / NR][MR][NR]
        char *k, *v;                                      // rows, where they are copied
        char* kt;                                         // K^T, a panel of A for each tile of keys and MR columns
        uint8_t* has_non_finite;                          // of each tile of keys
        char *q, *dy;                                     // rows of the queries of a block; rows without a gradient are zeros
        char *q_across, *dy_across, *q_along, *dy_along;  // Q^T and dY^T by panels of queries, Q and dY by panels of columns
        char *dq, *scores, *products, *slopes, *weights, *dscores;
        int64_t bytes;
    };

    Scratch scratch_at(char* base) const {
        Scratch s{};
        int64_t at = 0;
        const auto take = [&](int64_t count) {
            char* const result = base == nullptr ? nullptr : base + at;
            at += (count + 63) / 64 * 64;
            return result;
        };
        constexpr int64_t kSize = sizeof(C), kTile = kKeys * kNr * kSize + kPanelFooterBytes;
        const int64_t tiles = chunks.keys / kKeys;
        s.panels = reinterpret_cast<Panel*>(take(kPanels * static_cast<int64_t>(sizeof(Panel))));
        s.dk = reinterpret_cast<C*>(take(chunks.keys * wide_panels(d_k()) * kNr * kSize));
        s.dv = reinterpret_cast<C*>(take(chunks.keys * wide_panels(d_v()) * kNr * kSize));
        s.k = take(Rows::scratch_bytes(chunks.keys, d_k()));
        s.v = take(Rows::scratch_bytes(chunks.keys, d_v()));
        s.kt = take(tiles * kt_bytes());
        s.has_non_finite = reinterpret_cast<uint8_t*>(take(tiles));
        s.q = take(Rows::scratch_bytes(kQueries, d_k()));
        s.dy = take(Rows::scratch_bytes(kQueries, d_v()));
        s.q_across = take(kPanels * Tile::b_bytes(d_k()));
        s.dy_across = take(kPanels * Tile::b_bytes(d_v()));
        s.q_along = take(wide_panels(d_k()) * Tile::b_bytes(kQueries));
        s.dy_along = take(wide_panels(d_v()) * Tile::b_bytes(kQueries));
        s.dq = take(kPanels * dq_bytes());
        s.scores = take(kTile);
        s.products = take(kTile);
        s.slopes = take(forward().rules.softcap != 0 ? kTile : 0);
        s.weights = take(kKeys / kMr * Tile::a_bytes(kQueries));
        s.dscores = take(kKeys / kMr * Tile::a_bytes(kQueries));
        s.bytes = at;
        return s;
    }

    // Keys of a task.
    struct Chunk {
        Sequence s;
        int64_t b, kv, first, count;
        Rows k, v;
    };
    // Queries of a block, [i, i + rows) of head h.
    struct Block {
        int64_t h, i, rows, used;  // used panels
        bool has_non_finite;
        int64_t depth() const { return used * kNr; }
    };

    void load_keys(Chunk& c, const Scratch& at) const {
        const AttentionForward<T>& f = forward();
        c.k.load(f.k, f.lengths, c.s, c.b, c.kv, c.first, c.count, d_k(), at.k);
        c.v.load(f.v, f.lengths, c.s, c.b, c.kv, c.first, c.count, d_v(), at.v);
        for (int64_t j = 0, t = 0; j < c.count; j += kKeys, ++t) {
            const int64_t count = std::min(kKeys, c.count - j);
            bool found = false;
            char* const to = at.kt + t * kt_bytes();
            Tile::pack_all_columns(c.k.base + j * c.k.pitch, c.k.pitch, d_k(), count, to);
            for (int64_t n = 0; n < narrow_panels(d_k()); ++n)
                found |= Tile::has_non_finite(reinterpret_cast<const Unit*>(to + n * Tile::a_bytes(count)),
                                              Tile::units(count) * kMr);
            at.has_non_finite[t] = found;
        }
        std::memset(static_cast<void*>(at.dk), 0,
                    static_cast<size_t>(Tile::padded(c.count) * wide_panels(d_k()) * kNr) * sizeof(C));
        std::memset(static_cast<void*>(at.dv), 0,
                    static_cast<size_t>(Tile::padded(c.count) * wide_panels(d_v()) * kNr) * sizeof(C));
    }

    // Loads queries, lse and delta. Returns false if no query of the block sees a key of the chunk.
    bool load_queries(const Chunk& c, Block& block, const Scratch& at) const {
        const AttentionForward<T>& f = forward();
        const BackwardRows<T> rows{p, seed};
        const int64_t k_pitch = Rows::pitch_of(d_k()), v_pitch = Rows::pitch_of(d_v());
        E *const q = reinterpret_cast<E*>(at.q), *const dy = reinterpret_cast<E*>(at.dy);
        const KeyRange seen = keys_of_rows(f.rules.band, c.s, block.i, block.i + block.rows - 1);
        if (seen.first >= c.first + c.count || seen.end <= c.first) return false;
        run_unfused<Tile::kBytes>([&] {
            for (int64_t n = 0; n < block.used; ++n) {
                Panel& panel = *new (at.panels + n) Panel;
                panel.fill(f.rules, c.s, block.h, block.i + n * kNr, block.i + block.rows);
                for (int64_t x = 0; x < kNr; ++x) {
                    E *const to_q = q + (n * kNr + x) * k_pitch, *const to_dy = dy + (n * kNr + x) * v_pitch;
                    typename BackwardRows<T>::Row row;
                    const bool is_live = x < panel.count && rows.load_row(c.s, c.b, block.h, panel.row[x], row);
                    panel.max[x] = is_live ? row.lse : C(INFINITY);
                    panel.sum[x] = is_live ? row.delta : C(0);
                    if (is_live) {
                        Tile::copy_row(row.q, d_k(), to_q);
                        Tile::copy_row(row.dy, d_v(), to_dy);
                    } else {
                        std::memset(static_cast<void*>(to_q), 0, static_cast<size_t>(k_pitch) * sizeof(E));
                        std::memset(static_cast<void*>(to_dy), 0, static_cast<size_t>(v_pitch) * sizeof(E));
                        panel.first[x] = panel.end[x] = 0;
                    }
                }
            }
        });
        block.has_non_finite = false;
        pack_queries(q, k_pitch, d_k(), block, at.q_across, at.q_along);
        pack_queries(dy, v_pitch, d_v(), block, at.dy_across, at.dy_along);
        std::memset(at.dq, 0, static_cast<size_t>(block.used * dq_bytes()));
        return true;
    }

    static void pack_queries(const E* rows, int64_t pitch, int64_t depth, Block& block, char* across, char* along) {
        for (int64_t n = 0; n < block.used; ++n)
            Same::pack_transposed_rows(depth, reinterpret_cast<Unit*>(across + n * Tile::b_bytes(depth)),
                                       [&](int64_t x) { return rows + (n * kNr + x) * pitch; });
        for (int64_t n = 0; n < wide_panels(depth); ++n) {
            Unit* const to = reinterpret_cast<Unit*>(along + n * Tile::b_bytes(kQueries));
            Same::template pack_rows_of<kNr>(rows + n * kNr, pitch, depth - n * kNr, block.depth(), to);
            block.has_non_finite |= Tile::has_non_finite(to, Tile::units(block.depth()) * kNr);
        }
    }

    // P in place of the products, dS in place of the scores.
    BK_HD void differentiate(const ScoreTile<T, Tile>& tile, const Panel& panel, bool is_plain, C* products, C* slopes) const {
        const bool is_partial = panel.count < kNr || panel.hides_some(tile.j, tile.count);
        const C factor = tile.template finish<kNr>(panel, is_plain, is_partial, slopes);
        const bool drops = tile.rules.dropout.probability > 0;
        alignas(64) C factors[kNr];
        for (int x = 0; x < kNr; ++x) factors[x] = 1;
        for (int64_t y = 0; y < tile.count; ++y) {
            C *const row = tile.scores + y * kNr, *const product = products + y * kNr;
            if (drops) tile.drop(panel, seed, y, factors);
            BK_CHUNK_LOOP
            for (int x = 0; x < kNr; ++x) {
                const C z = row[x] * factor - panel.max[x];
                const C weight = math::exp_of_negative<T>(math::select(z > C(80), C(80), z));
                const C kept = drops ? math::select(factors[x] == 0, C(0), factors[x] * product[x]) : product[x];
                row[x] = math::select(weight == 0, C(0), weight * (kept - panel.sum[x]));
                product[x] = weight * factors[x];
            }
        }
    }

    void store_dbias(const ScoreTile<T, Tile>& tile, const Panel& panel) const {
        const Lengths& lengths = forward().lengths;
        for (int64_t x = 0; x < panel.count; ++x) {
            const int64_t row = (tile.b * forward().heads + panel.head[x]) * lengths.q_len + panel.row[x];
            for (int64_t y = 0; y < tile.count; ++y)
                static_cast<T*>(p.dbias)[row * lengths.k_len + tile.j + y] = narrow<T>(tile.scores[y * kNr + x]);
        }
    }

    // Copies a tile of [key, query] of panel n to rows of operand A; a null one is of zeros.
    static BK_HD void copy_to_rows(const C* from, int64_t count, int64_t n, int64_t depth, char* to) {
        for (int64_t y = 0; y < Tile::padded(count); ++y) {
            char* const group = to + y / kMr * Tile::a_bytes(depth);
            if constexpr (Tile::kIsPairs) {
                alignas(64) uint16_t bits[kNr] = {};
                if (from != nullptr && y < count) {
                    BK_VECTOR_LOOP
                    for (int x = 0; x < kNr; ++x)
                        bits[x] = static_cast<uint16_t>((bit_cast<uint32_t>(from[y * kNr + x]) + 0x8000u) >> 16);
                }
                std::memcpy(group + (y % kMr * depth + n * kNr) * 2, bits, sizeof(bits));
                if (y % kMr == 0) Tile::assume_normal(group, Tile::units(depth) * kMr);
            } else {
                C* const row = reinterpret_cast<C*>(group) + y % kMr * depth + n * kNr;
                if (from != nullptr && y < count)
                    std::memcpy(row, from + y * kNr, sizeof(C) * kNr);
                else
                    std::memset(row, 0, sizeof(C) * kNr);
            }
        }
    }

    // Makes dS^T the packed operand B.
    static BK_HD void pack_scores([[maybe_unused]] C* scores, [[maybe_unused]] int64_t count) {
        if constexpr (Tile::kIsPairs) {
            for (int64_t y = 0; y < count; y += 2) {
                alignas(64) uint32_t unit[kNr];
                const C *const low = scores + y * kNr, *const high = low + kNr;
                if (y + 1 < count) {
                    BK_VECTOR_LOOP
                    for (int x = 0; x < kNr; ++x)
                        unit[x] = (bit_cast<uint32_t>(low[x]) + 0x8000u) >> 16 |
                                  ((bit_cast<uint32_t>(high[x]) + 0x8000u) & 0xffff0000u);
                } else {
                    for (int x = 0; x < kNr; ++x) unit[x] = (bit_cast<uint32_t>(low[x]) + 0x8000u) >> 16;
                }
                std::memcpy(scores + y / 2 * kNr, unit, sizeof(unit));
            }
            Tile::assume_normal(scores, Tile::units(count) * kNr);
        }
    }

    // The three products of one panel without those of P = 0, beside which operands may be infinite or NaN.
    BK_COLD void add_with_care(const Chunk& c, const Scratch& at, int64_t n, int64_t y0, int64_t count, const C* dscores,
                               const C* weights, const C* slopes) const {
        const Panel& panel = at.panels[n];
        const E *const q = reinterpret_cast<const E*>(at.q), *const dy = reinterpret_cast<const E*>(at.dy);
        const int64_t k_pitch = Rows::pitch_of(d_k()), v_pitch = Rows::pitch_of(d_v());
        C* const dq = reinterpret_cast<C*>(at.dq + n * dq_bytes());
        const auto cell = [](C* sums, int64_t key, int64_t panels, int64_t column) -> C& {
            return sums[((key / kMr * panels + column / kNr) * kMr + key % kMr) * kNr + column % kNr];
        };
        for (int64_t y = 0; y < count; ++y)
            for (int64_t x = 0; x < panel.count; ++x) {
                const C weight = weights[y * kNr + x];
                C dscore = dscores[y * kNr + x];
                if (slopes != nullptr && dscore != 0) dscore *= slopes[y * kNr + x];
                const E *const q_row = q + (n * kNr + x) * k_pitch, *const dy_row = dy + (n * kNr + x) * v_pitch,
                               *const k_row = c.k.base + (y0 + y) * c.k.pitch;
                for (int64_t d = 0; d < d_v() && weight != 0; ++d)
                    cell(at.dv, y0 + y, wide_panels(d_v()), d) += weight * static_cast<C>(widen(dy_row[d]));
                for (int64_t d = 0; d < d_k() && dscore != 0; ++d) {
                    cell(at.dk, y0 + y, wide_panels(d_k()), d) += dscore * static_cast<C>(widen(q_row[d]));
                    dq[d * kNr + x] += dscore * static_cast<C>(widen(k_row[d]));
                }
            }
    }

    // Adds panel n to dQ and copies its P and dS; false if they are all zeros.
    bool add_panel(const Chunk& c, const Block& block, const Scratch& at, int64_t n, int64_t y0, int64_t count,
                   bool is_plain) const {
        const AttentionForward<T>& f = forward();
        const Panel& panel = at.panels[n];
        const int64_t j = c.first + y0;
        if (panel.keys.first >= j + count || panel.keys.end <= j) return false;
        C *const scores = reinterpret_cast<C*>(at.scores), *const products = reinterpret_cast<C*>(at.products),
                 *const slopes = f.rules.softcap != 0 ? reinterpret_cast<C*>(at.slopes) : nullptr;
        const auto multiply = [&](const Rows& rows, int64_t depth, const char* b, C* to) {
            for (int64_t y = 0; y < count; y += kMr)
                Tile::kernel().multiply(Tile::units(depth), rows.base + (y0 + y) * rows.pitch,
                                        rows.pitch * static_cast<int64_t>(sizeof(E)), false, b, kNr, to + y * kNr, false);
        };
        multiply(c.k, d_k(), at.q_across + n * Tile::b_bytes(d_k()), scores);
        multiply(c.v, d_v(), at.dy_across + n * Tile::b_bytes(d_v()), products);
        const ScoreTile<T, Tile> tile{f.rules, c.s, c.b, j, count, scores};
        run_unfused<Tile::kBytes>([&] { this->differentiate(tile, panel, is_plain, products, slopes); });
        if (p.dbias != nullptr) store_dbias(tile, panel);
        if (block.has_non_finite || at.has_non_finite[y0 / kKeys] != 0) {
            add_with_care(c, at, n, y0, count, scores, products, slopes);
            return false;
        }
        run_unfused<Tile::kBytes>([&] {
            if (slopes != nullptr)
                for (int64_t x = 0; x < count * kNr; ++x) scores[x] = scores[x] == 0 ? C(0) : scores[x] * slopes[x];
            copy_to_rows(products, count, n, block.depth(), at.weights);
            copy_to_rows(scores, count, n, block.depth(), at.dscores);
            pack_scores(scores, count);
        });
        const char* const kt = at.kt + y0 / kKeys * kt_bytes();
        C* const dq = reinterpret_cast<C*>(at.dq + n * dq_bytes());
        for (int64_t d = 0; d < narrow_panels(d_k()); ++d)
            Tile::kernel().multiply(Tile::units(count), kt + d * Tile::a_bytes(count), 0, true, scores, panel.count,
                                    dq + d * kMr * kNr, true);
        return true;
    }

    void add_block(const Chunk& c, const Block& block, const Scratch& at, bool is_plain) const {
        for (int64_t y0 = 0; y0 < c.count; y0 += kKeys) {
            const int64_t count = std::min(kKeys, c.count - y0);
            bool is_added[kPanels], any = false;
            for (int64_t n = 0; n < block.used; ++n) any |= is_added[n] = add_panel(c, block, at, n, y0, count, is_plain);
            if (!any) continue;
            run_unfused<Tile::kBytes>([&] {
                for (int64_t n = 0; n < block.used; ++n) {
                    if (is_added[n]) continue;
                    copy_to_rows(nullptr, count, n, block.depth(), at.weights);
                    copy_to_rows(nullptr, count, n, block.depth(), at.dscores);
                }
            });
            const auto multiply = [&](const char* rows, const char* along, int64_t depth, C* sums) {
                for (int64_t d = 0; d < wide_panels(depth); ++d)
                    for (int64_t y = 0; y < count; y += kMr)
                        Tile::kernel().multiply(Tile::units(block.depth()), rows + y / kMr * Tile::a_bytes(block.depth()), 0,
                                                false, along + d * Tile::b_bytes(kQueries),
                                                std::min<int64_t>(depth - d * kNr, kNr),
                                                sums + ((y0 + y) / kMr * wide_panels(depth) + d) * kMr * kNr, true);
            };
            if (p.dv.data != nullptr) multiply(at.weights, at.dy_along, d_v(), at.dv);
            if (p.dk.data != nullptr) multiply(at.dscores, at.q_along, d_k(), at.dk);
        }
    }

    // Factor that the sums of dS still need.
    C factor() const { return forward().rules.softcap != 0 ? C(1) : static_cast<C>(forward().rules.scale); }

    void store_queries(const Chunk& c, int64_t chunk, const Block& block, const Scratch& at, bool is_zero) const {
        if (p.dq.data == nullptr) return;
        const AttentionForward<T>& f = forward();
        for (int64_t r = 0; r < block.rows; ++r) {
            const C* const from = reinterpret_cast<const C*>(at.dq + r / kNr * dq_bytes()) + r % kNr;
            if (chunks.count > 1) {
                if (is_zero) return;
                const int64_t row = ((chunk * f.batch + c.b) * f.heads + block.h) * f.lengths.q_len + block.i + r;
                for (int64_t d = 0; d < d_k(); ++d) dq_partials[row * d_k() + d] = from[d * kNr];
            } else {
                T* const to = p.dq.at(c.b, block.h, c.s.q_begin + block.i + r);
                for (int64_t d = 0; d < d_k(); ++d) to[d] = narrow<T>(is_zero ? C(0) : from[d * kNr] * factor());
            }
        }
    }

    void store_keys(const Chunk& c, const Scratch& at) const {
        const auto store = [&](const HeadsView<T>& to, const C* sums, int64_t depth, C scale) {
            if (to.data == nullptr) return;
            for (int64_t y = 0; y < c.count; ++y)
                for (int64_t d = 0; d < depth; ++d)
                    to.at(c.b, c.kv, c.s.k_begin + c.first + y)[d] =
                        narrow<T>(scale * sums[((y / kMr * wide_panels(depth) + d / kNr) * kMr + y % kMr) * kNr + d % kNr]);
        };
        store(p.dk, at.dk, d_k(), factor());
        store(p.dv, at.dv, d_v(), C(1));
    }

    void task(int64_t t, char* base) const {
        const AttentionForward<T>& f = forward();
        const Scratch at = scratch_at(base);
        const int64_t chunk = t / (f.batch * f.kv_heads), group = f.heads / f.kv_heads;
        Chunk c{};
        c.b = t / f.kv_heads % f.batch;
        c.kv = t % f.kv_heads;
        c.s = sequence_of(f.lengths, c.b);
        c.first = std::min(chunk * chunks.keys, c.s.k_len);
        c.count = std::min(chunks.keys, c.s.k_len - c.first);
        load_keys(c, at);
        const bool is_plain = has_plain_scores(f.rules);
        for (int64_t h = c.kv * group; h < (c.kv + 1) * group; ++h)
            for (int64_t i = 0; i < c.s.q_len; i += kQueries) {
                Block block{h, i, std::min(kQueries, c.s.q_len - i), 0, false};
                block.used = ceil_div<int64_t>(block.rows, kNr);
                const bool is_seen = c.count > 0 && load_queries(c, block, at);
                if (is_seen) add_block(c, block, at, is_plain);
                store_queries(c, chunk, block, at, !is_seen);
            }
        store_keys(c, at);
        if (f.lengths.k_offsets != nullptr) return;
        const BackwardRows<T> rows{p, seed};
        const int64_t end = std::min((chunk + 1) * chunks.keys, f.lengths.k_len);
        for (int64_t j = std::max(chunk * chunks.keys, c.s.k_len); j < end; ++j) rows.zero_key(c.b, c.kv, c.s.k_begin + j);
    }

    // Adds the partial sums of dQ in the order of the chunks.
    void add_partials() const {
        const AttentionForward<T>& f = forward();
        if (p.dq.data == nullptr || chunks.count == 1) return;
        const int64_t q_len = f.lengths.q_len, rows = f.batch * f.heads * q_len;
        parallel_ranges(rows, grain_for(chunks.count * d_k() * static_cast<int64_t>(sizeof(C))),
                        [&](int64_t begin, int64_t end) {
                            for (int64_t r = begin; r < end; ++r) {
                                const int64_t b = r / q_len / f.heads, h = r / q_len % f.heads, i = r % q_len;
                                const Sequence s = sequence_of(f.lengths, b);
                                if (i >= s.q_len) continue;
                                // Blocks of queries that see nothing of a chunk have no partial sum.
                                const int64_t first = i / kQueries * kQueries, last = std::min(first + kQueries, s.q_len) - 1;
                                const KeyRange seen = keys_of_rows(f.rules.band, s, first, last);
                                T* const to = p.dq.at(b, h, s.q_begin + i);
                                constexpr int64_t kSpan = 256;
                                C sums[kSpan];
                                for (int64_t d = 0; d < d_k(); d += kSpan) {
                                    const int64_t count = std::min(kSpan, d_k() - d);
                                    for (int64_t x = 0; x < count; ++x) sums[x] = 0;
                                    for (int64_t c = 0; c < chunks.count; ++c) {
                                        const int64_t start = std::min(c * chunks.keys, s.k_len),
                                                      stop = std::min(start + chunks.keys, s.k_len);
                                        if (start >= stop || seen.first >= stop || seen.end <= start) continue;
                                        const C* const partial = dq_partials + (c * rows + r) * d_k() + d;
                                        for (int64_t x = 0; x < count; ++x) sums[x] += partial[x];
                                    }
                                    for (int64_t x = 0; x < count; ++x) to[d + x] = narrow<T>(sums[x] * factor());
                                }
                            }
                        });
    }

    // Bytes of the partial sums of dQ.
    int64_t partials_bytes() const {
        const AttentionForward<T>& f = forward();
        const int64_t count = chunks.count > 1 ? chunks.count * f.batch * f.heads * f.lengths.q_len * d_k() : 0;
        return (count * static_cast<int64_t>(sizeof(C)) + 63) / 64 * 64;
    }
    int64_t tasks() const { return forward().batch * forward().kv_heads * chunks.count; }
};

template <class T, class Tile>
BackwardTiles<T, Tile> backward_tiles(const AttentionBackward<T>& p) {
    using Core = BackwardTiles<T, Tile>;
    return {p, seed_of(p.forward.rules.dropout), KeyChunks::of(p.forward, Core::kKeys, sizeof(typename Core::C)), nullptr};
}

template <class T, class Tile>
size_t backward_tiles_bytes(const AttentionBackward<T>& p) {
    const AttentionForward<T>& f = p.forward;
    using Core = BackwardTiles<T, Tile>;
    constexpr int64_t kSize = sizeof(typename Core::C);
    const Core core{p, 0, KeyChunks::of(f, Core::kKeys, kSize), nullptr};
    const int64_t slots = std::min(thread_count(), KeyChunks::most_tasks(f));
    return static_cast<size_t>(KeyChunks::most_partial_bytes(f, kSize) + slots * core.scratch_at(nullptr).bytes) + 64;
}

// False if the workspace is too small for a thread.
template <class T, class Tile>
bool run_backward_tiles(const Launch& launch, const AttentionBackward<T>& p) {
    auto core = backward_tiles<T, Tile>(p);
    const int64_t slot_bytes = core.scratch_at(nullptr).bytes, partials = core.partials_bytes();
    const int64_t left = static_cast<int64_t>(launch.workspace_bytes) - partials - 64;
    if (launch.workspace == nullptr || left < slot_bytes) return false;
    char* const start = static_cast<char*>(launch.workspace) + (64 - reinterpret_cast<uintptr_t>(launch.workspace) % 64) % 64;
    core.dq_partials = reinterpret_cast<typename Tile::C*>(start);
    const int64_t slots = std::min(std::min(left / slot_bytes, thread_count()), core.tasks());
    std::atomic<int64_t> next{0};
    split_ranges(slots, 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot)
            for (int64_t t; (t = next.fetch_add(1)) < core.tasks();) core.task(t, start + partials + slot * slot_bytes);
    });
    core.add_partials();
    return true;
}

}  // namespace bk::attention_cpu

// SPDX-License-Identifier: Apache-2.0
// Fused attention on the CPU in tiles (attention/flash/tiles_cpu.h): an online softmax over tiles of keys, whose bounds do
// not depend on the queries. The bits of a row depend on its own operands alone.
#pragma once

#include <atomic>

#include "attention/flash/score_tile_cpu.h"
#include "core/abi/workspace.h"

namespace bk::attention_cpu {

template <class T, class Tile>
struct ForwardTiles {
    using C = typename Tile::C;
    using E = typename Tile::E;
    using Unit = typename Tile::Unit;
    using Panel = QueryPanel<C, Tile::kNr>;
    using Rows = KeyRows<Tile, T>;
    static constexpr int kMr = Tile::kMr, kNr = Tile::kNr;
    static constexpr int64_t kMostKeys = 128 / (2 * kMr) * (2 * kMr), kRows = 192 / kNr * kNr;
    static constexpr int64_t kStackBytes = 24 * 1024;

    const AttentionForward<T>& p;
    uint64_t seed;
    int64_t panels, keys;  // of a tile

    // Scratch of a thread.
    struct Scratch {
        Panel* panels;
        char *q, *o, *k, *v, *v_rows, *scores;
        int64_t bytes;
    };
    int64_t o_bytes() const { return Tile::padded(p.d_v) * kNr * static_cast<int64_t>(sizeof(C)); }
    int64_t v_panels() const { return Tile::padded(p.d_v) / kMr; }
    bool copies_values() const { return Tile::kConverts || p.lengths.page_ids != nullptr; }

    Scratch scratch_at(char* base) const {
        Scratch s{};
        int64_t at = 0;
        const auto take = [&](int64_t count) {
            char* const result = base == nullptr ? nullptr : base + at;
            at += (count + 63) / 64 * 64;
            return result;
        };
        s.panels = reinterpret_cast<Panel*>(take(panels * static_cast<int64_t>(sizeof(Panel))));
        s.q = take(panels * Tile::b_bytes(p.d_k));
        s.o = take(panels * o_bytes());
        s.k = take(Rows::scratch_bytes(keys, p.d_k));
        s.v = take(v_panels() * Tile::a_bytes(keys));
        s.v_rows = take(copies_values() ? Rows::scratch_bytes(keys, p.d_v) : 0);
        s.scores = take(Tile::padded(keys) * kNr * static_cast<int64_t>(sizeof(C)) + kPanelFooterBytes);
        s.bytes = at;
        return s;
    }

    // Keys of a tile of values, packed for V^T.
    struct Values {
        const E* rows;
        int64_t pitch;
        bool is_checked = false, is_finite = true;
    };

    Values pack_values(const Sequence& s, int64_t b, int64_t kv, int64_t j, int64_t count, const Scratch& to) const {
        Values v{nullptr, p.v.row};
        if constexpr (!Tile::kConverts) v.rows = copies_values() ? nullptr : p.v.at(b, kv, s.k_begin + j);
        if (copies_values()) {
            Rows rows;
            rows.load(p.v, p.lengths, s, b, kv, j, count, p.d_v, to.v_rows);
            v = {rows.base, rows.pitch};
        }
        Tile::pack_all_columns(v.rows, v.pitch, p.d_v, count, to.v);
        return v;
    }

    bool is_finite(Values& v, int64_t count, const Scratch& from) const {
        if (!v.is_checked)
            for (int64_t c = 0; c < v_panels(); ++c)
                v.is_finite &= !Tile::has_non_finite(reinterpret_cast<const Unit*>(from.v + c * Tile::a_bytes(count)),
                                                     Tile::units(count) * kMr);
        v.is_checked = true;
        return v.is_finite;
    }

    void multiply_keys(const Rows& k, int64_t count, int64_t width, const char* q, C* scores) const {
        for (int64_t y = 0; y < count; y += kMr)
            Tile::kernel().multiply(Tile::units(p.d_k), k.base + y * k.pitch, k.pitch * static_cast<int64_t>(sizeof(E)), false,
                                    q, width, scores + y * kNr, false);
    }

    // Probabilities relative to the new maximum in place of the scores, as the packed operand B; rescales O^T.
    template <int kWidth>
    BK_HD void soften(const ScoreTile<T, Tile>& tile, Panel& panel, bool is_plain, bool is_partial, C* o) const {
        using Vector = typename Tile::Vector;
        constexpr int kVectors = kWidth / Tile::kVectorLanes;
        C* const scores = tile.scores;
        const C factor = tile.template finish<kWidth>(panel, is_plain, is_partial, nullptr);
        Vector top[kVectors];
        for (int v = 0; v < kVectors; ++v) top[v] = Vector{} - C(INFINITY);
        for (int64_t y = 0; y < tile.count; ++y)
            for (int v = 0; v < kVectors; ++v) {
                const Vector row = *reinterpret_cast<const Vector*>(scores + y * kNr + v * Tile::kVectorLanes);
                top[v] = row > top[v] ? row : top[v];
            }
        alignas(64) C base[kWidth], alpha[kWidth], sum[kWidth];
        for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(base + v * Tile::kVectorLanes) = top[v];
        bool rescales = false;
        BK_VECTOR_LOOP
        for (int x = 0; x < kWidth; ++x) {
            const C max = math::max(panel.max[x], base[x] * factor);
            base[x] = math::select(max == -C(INFINITY), C(0), max);
            alpha[x] = math::exp_of_negative<T>(panel.max[x] - base[x]);
            sum[x] = 0;
            rescales |= (panel.max[x] != max) & (panel.max[x] != -C(INFINITY));
            panel.max[x] = max;
        }
        const bool drops = tile.rules.dropout.probability > 0;
        for (int64_t y = 0; y < tile.count; ++y) {
            C* const row = scores + y * kNr;
            BK_CHUNK_LOOP
            for (int x = 0; x < kWidth; ++x) {
                const C e = math::exp_of_negative<T>(row[x] * factor - base[x]);
                row[x] = e;
                sum[x] += e;
            }
            if (drops) {
                alignas(64) C factors[kWidth] = {};
                tile.drop(panel, seed, y, factors);
                for (int x = 0; x < kWidth; ++x) row[x] *= factors[x];
            }
        }
        BK_VECTOR_LOOP
        for (int x = 0; x < kWidth; ++x) panel.sum[x] = panel.sum[x] * alpha[x] + sum[x];
        if (!rescales) return;
        for (int64_t c = 0; c < Tile::padded(p.d_v); ++c) {
            BK_VECTOR_LOOP
            for (int x = 0; x < kWidth; ++x) o[c * kNr + x] *= alpha[x];
        }
    }

    // Rounds probabilities to bf16 and interleaves those of adjacent keys.
    template <int kWidth>
    static BK_HD void interleave_pairs(const C* from, int64_t count, uint32_t* to) {
        for (int64_t y = 0; y < count; y += 2) {
            alignas(64) uint32_t unit[kWidth];
            const C *const low = from + y * kNr, *const high = low + kNr;
            if (y + 1 < count) {
                BK_VECTOR_LOOP
                for (int x = 0; x < kWidth; ++x)
                    unit[x] =
                        (bit_cast<uint32_t>(low[x]) + 0x8000u) >> 16 | ((bit_cast<uint32_t>(high[x]) + 0x8000u) & 0xffff0000u);
            } else {
                for (int x = 0; x < kWidth; ++x) unit[x] = (bit_cast<uint32_t>(low[x]) + 0x8000u) >> 16;
            }
            std::memcpy(to + y / 2 * kNr, unit, sizeof(unit));
        }
    }

    // O^T += V^T P^T with hidden infinities and NaN among the values: they are skipped. `shown` has a byte for each score.
    // Additions have the microkernel's order.
    BK_HD void add_shown(const Values& v, const C* weights, const uint8_t* shown, int64_t count, int64_t width, C* o) const {
        BK_FUSE_PRODUCTS
        for (int64_t x = 0; x < width; ++x)
            for (int64_t c = 0; c < p.d_v; ++c) {
                C sum = 0;
                for (int64_t y = 0; y < count; ++y)
                    if (shown[y * kNr + x] != 0) sum += weights[y * kNr + x] * static_cast<C>(widen(v.rows[y * v.pitch + c]));
                o[c * kNr + x] += sum;
            }
    }

    template <int kWidth>
    void add_tile(const ScoreTile<T, Tile>& tile, Panel& panel, Values& values, bool is_plain, const Scratch& at, C* o) const {
        const bool is_partial = panel.hides_some(tile.j, tile.count);
        const bool may_hide = is_partial || !is_plain || tile.rules.dropout.probability > 0 || p.is_batch_invariant;
        const auto soften_tile = [&] {
            run_unfused<Tile::kBytes>([&] { this->template soften<kWidth>(tile, panel, is_plain, is_partial, o); });
        };
        if (may_hide && !is_finite(values, tile.count, at)) return add_with_care<kWidth>(tile, panel, values, is_plain, o);
        soften_tile();
        if constexpr (Tile::kIsPairs) {
            run_unfused<Tile::kBytes>(
                [&] { interleave_pairs<kWidth>(tile.scores, tile.count, reinterpret_cast<uint32_t*>(tile.scores)); });
            Tile::assume_normal(tile.scores, Tile::units(tile.count) * kNr);
        }
        for (int64_t c = 0; c < v_panels(); ++c)
            Tile::kernel().multiply(Tile::units(tile.count), at.v + c * Tile::a_bytes(tile.count), 0, true, tile.scores,
                                    panel.count, o + c * kMr * kNr, true);
    }

    template <int kWidth>
    BK_COLD void add_with_care(const ScoreTile<T, Tile>& tile, Panel& panel, Values& values, bool is_plain, C* o) const {
        uint8_t shown[kMostKeys * kNr];
        if (!is_plain) tile.template apply_rules<kWidth>(panel, nullptr);
        tile.template hide_by_band<kWidth>(panel);
        for (int64_t y = 0; y < tile.count; ++y)
            for (int64_t x = 0; x < panel.count; ++x) shown[y * kNr + x] = tile.scores[y * kNr + x] != -C(INFINITY);
        ScoreRules finished = tile.rules;
        if (!is_plain) finished.scale = 1;
        const ScoreTile<T, Tile> rest{finished, tile.s, tile.b, tile.j, tile.count, tile.scores};
        soften<kWidth>(rest, panel, true, false, o);
        if (tile.rules.dropout.probability > 0)
            for (int64_t y = 0; y < tile.count; ++y)
                for (int64_t x = 0; x < panel.count; ++x) shown[y * kNr + x] &= tile.scores[y * kNr + x] != 0;
        run_fused<Tile::kBytes>([&] { add_shown(values, tile.scores, shown, tile.count, panel.count, o); });
    }

    // Divides by the sums and stores y and lse; leaves the factor of the weights in panel.sum.
    void store(const Sequence& s, int64_t b, Panel& panel, const C* o) const {
        for (int64_t x = 0; x < panel.count; ++x) {
            const int64_t h = panel.head[x], row = s.q_begin + panel.row[x];
            C sum = panel.sum[x], max = panel.max[x], factor = 0, lse = static_cast<C>(p.lse.empty);
            if (sum != 0) {
                C share = 1;
                if (p.rules.sinks != nullptr) {
                    const C sink = static_cast<C>(p.rules.sinks[h]), top = sink > max ? sink : max;
                    share = math::exp<C>(max - top);
                    sum = sum * share + math::exp<C>(sink - top);
                    max = top;
                }
                factor = share / sum;
                lse = max + math::log<C>(sum);
                if (p.lse.is_base2) lse = static_cast<C>(static_cast<double>(lse) / kLn2);
            }
            store_lse<T>(p.lse, b, h, row, lse);
            panel.sum[x] = factor;
            if (p.y.data == nullptr) continue;
            T* const y = p.y.at(b, h, row);
            for (int64_t c = 0; c < p.d_v; ++c) y[c] = narrow<T>(sum == 0 ? C(0) : o[c * kNr + x] * factor);
        }
    }

    void store_weights(const ScoreTile<T, Tile>& tile, const Panel& panel, bool is_plain) const {
        const C factor = tile.template finish<kNr>(panel, is_plain, true, nullptr);
        for (int64_t x = 0; x < panel.count; ++x) {
            const int64_t at = ((tile.b * p.heads + panel.head[x]) * p.lengths.q_len + panel.row[x]) * p.lengths.k_len + tile.j;
            for (int64_t y = 0; y < std::min(tile.count, p.lengths.k_len - tile.j); ++y) {
                const C score = tile.scores[y * kNr + x];
                const C weight = math::exp_of_negative<T>(score * factor - panel.max[x]) * panel.sum[x];
                store_weight<T>(p.weights, at + y, score == -C(INFINITY) ? C(0) : weight);
            }
        }
    }

    void zero_weights(int64_t b, int64_t h, int64_t i, int64_t first, int64_t end) const {
        const int64_t at = ((b * p.heads + h) * p.lengths.q_len + i) * p.lengths.k_len;
        for (int64_t j = first; j < end; ++j) store_weight<T>(p.weights, at + j, C(0));
    }

    // Rows of a tile of queries: `rows` of them from row `begin` of heads first_head on.
    void tile(const Sequence& s, int64_t b, int64_t kv, int64_t first_head, int64_t begin, int64_t rows, char* base) const {
        const Scratch at = scratch_at(base);
        const bool is_plain = has_plain_scores(p.rules);
        const int64_t used = ceil_div<int64_t>(rows - begin, kNr);
        KeyRange range{s.k_len, 0};
        for (int64_t n = 0; n < used; ++n) {
            Panel& panel = *new (at.panels + n) Panel;
            panel.fill(p.rules, s, first_head, begin + n * kNr, rows);
            range = {std::min(range.first, panel.keys.first), std::max(range.end, panel.keys.end)};
            Tile::pack_transposed_rows(p.d_k, reinterpret_cast<Unit*>(at.q + n * Tile::b_bytes(p.d_k)), [&](int64_t x) {
                return x < panel.count ? p.q.at(b, panel.head[x], s.q_begin + panel.row[x]) : nullptr;
            });
        }
        std::memset(at.o, 0, static_cast<size_t>(used * o_bytes()));
        const auto for_tiles = [&](const auto& body) {
            for (int64_t j = range.first / keys * keys; j < range.end; j += keys) {
                const int64_t count = std::min(keys, range.end - j);
                Rows k;
                k.load(p.k, p.lengths, s, b, kv, j, count, p.d_k, at.k);
                body(k, j, count);
            }
        };
        C* const scores = reinterpret_cast<C*>(at.scores);
        for_tiles([&](const Rows& k, int64_t j, int64_t count) {
            Values values = pack_values(s, b, kv, j, count, at);
            for (int64_t n = 0; n < used; ++n) {
                Panel& panel = at.panels[n];
                if (panel.keys.first >= j + count || panel.keys.end <= j) continue;
                multiply_keys(k, count, panel.count, at.q + n * Tile::b_bytes(p.d_k), scores);
                const ScoreTile<T, Tile> tile{p.rules, s, b, j, count, scores};
                C* const o = reinterpret_cast<C*>(at.o + n * o_bytes());
                if (panel.count > Tile::kVectorLanes)
                    add_tile<kNr>(tile, panel, values, is_plain, at, o);
                else
                    add_tile<Tile::kVectorLanes>(tile, panel, values, is_plain, at, o);
            }
        });
        for (int64_t n = 0; n < used; ++n) store(s, b, at.panels[n], reinterpret_cast<const C*>(at.o + n * o_bytes()));
        if (p.weights.values == bk::Values::kNone) return;
        for (int64_t n = 0; n < used; ++n)
            for (int64_t x = 0; x < at.panels[n].count; ++x)
                zero_weights(b, at.panels[n].head[x], at.panels[n].row[x], 0, p.lengths.k_len);
        for_tiles([&](const Rows& k, int64_t j, int64_t count) {
            for (int64_t n = 0; n < used; ++n) {
                multiply_keys(k, count, at.panels[n].count, at.q + n * Tile::b_bytes(p.d_k), scores);
                store_weights({p.rules, s, b, j, count, scores}, at.panels[n], is_plain);
            }
        });
    }

    RowTiles row_tiles() const { return RowTiles::of(p.heads / p.kv_heads, p.lengths.q_len, panels * kNr); }

    // Task t of them all: the queries that see most keys of a causal mask first.
    void task(int64_t t, const RowTiles& tiles, char* base) const {
        const int64_t per_batch = p.batch * p.kv_heads, group = p.heads / p.kv_heads;
        const int64_t b = t % per_batch / p.kv_heads, kv = t % p.kv_heads, n = tiles.tiles - 1 - t / per_batch;
        const Sequence s = sequence_of(p.lengths, b);
        const int64_t head = n / tiles.tiles_per_head * tiles.heads_per_tile, i = n % tiles.tiles_per_head * tiles.rows;
        const int64_t heads = std::min(tiles.heads_per_tile, group - head);
        const int64_t rows = std::min(i + tiles.rows, heads * s.q_len);
        if (p.weights.values != bk::Values::kNone)
            for (int64_t h = head; h < head + heads; ++h)
                for (int64_t r = std::max(i, s.q_len); r < std::min(i + tiles.rows, p.lengths.q_len); ++r)
                    zero_weights(b, kv * group + h, r, 0, p.lengths.k_len);
        if (i < rows) tile(s, b, kv, kv * group + head, i, rows, base);
    }
};

// Panels of a tile with a workspace: enough rows to share a packed tile of values, few enough for all threads.
template <class T, class Tile>
ForwardTiles<T, Tile> forward_tiles(const AttentionForward<T>& p, int64_t threads) {
    using Core = ForwardTiles<T, Tile>;
    int64_t panels = std::max<int64_t>(1, Core::kRows / Tile::kNr);
    const auto tasks = [&] {
        return p.batch * p.kv_heads * RowTiles::of(p.heads / p.kv_heads, p.lengths.q_len, panels * Tile::kNr).tiles;
    };
    while (panels > 1 && tasks() < 4 * threads) panels /= 2;
    return {p, seed_of(p.rules.dropout), panels, Core::kMostKeys};
}

// One panel with as many keys of a tile as fit on the stack, none if too few do.
template <class T, class Tile>
ForwardTiles<T, Tile> stack_tiles(const AttentionForward<T>& p) {
    using Core = ForwardTiles<T, Tile>;
    Core core{p, seed_of(p.rules.dropout), 1, Core::kMostKeys};
    while (core.scratch_at(nullptr).bytes > Core::kStackBytes && core.keys >= 4 * Core::kMr)
        core.keys = core.keys / (4 * Core::kMr) * (2 * Core::kMr);
    if (core.scratch_at(nullptr).bytes > Core::kStackBytes) core.keys = 0;
    return core;
}

template <class T, class Tile>
size_t forward_slot_bytes(const AttentionForward<T>& p) {
    using Core = ForwardTiles<T, Tile>;
    return static_cast<size_t>(Core{p, 0, Core::kRows / Tile::kNr, Core::kMostKeys}.scratch_at(nullptr).bytes) + 256;
}

// False if the rows core must do it: tiles fit neither the workspace nor the stack. Batch-invariant calls have the stack's
// tiles of keys, wherever these are.
template <class T, class Tile>
bool run_forward_tiles(const Launch& launch, const AttentionForward<T>& p) {
    using Core = ForwardTiles<T, Tile>;
    const size_t slot_bytes = forward_slot_bytes<T, Tile>(p);
    Core stack = stack_tiles<T, Tile>(p);
    if (p.is_batch_invariant && stack.keys == 0) return false;
    const int64_t slots = launch.workspace == nullptr ? 0 : static_cast<int64_t>(launch.workspace_bytes / slot_bytes);
    if (slots > 0) {
        Core core = forward_tiles<T, Tile>(p, thread_count());
        if (p.is_batch_invariant) core.keys = stack.keys;
        const RowTiles tiles = core.row_tiles();
        const int64_t tasks = p.batch * p.kv_heads * tiles.tiles;
        std::atomic<int64_t> next{0};
        const uintptr_t start = (reinterpret_cast<uintptr_t>(launch.workspace) + 63) / 64 * 64;
        split_ranges(std::min(std::min(slots, thread_count()), tasks), 1, [&](int64_t begin, int64_t end) {
            for (int64_t slot = begin; slot < end; ++slot)
                for (int64_t t; (t = next.fetch_add(1)) < tasks;)
                    core.task(t, tiles, reinterpret_cast<char*>(start) + static_cast<size_t>(slot) * (slot_bytes / 64 * 64));
        });
        return true;
    }
    if (stack.keys == 0) return false;
    const RowTiles tiles = stack.row_tiles();
    split_chunks(p.batch * p.kv_heads * tiles.tiles, 1, [&](int64_t begin, int64_t end) {
        alignas(64) char scratch[Core::kStackBytes];
        for (int64_t t = begin; t < end; ++t) stack.task(t, tiles, scratch);
    });
    return true;
}

}  // namespace bk::attention_cpu

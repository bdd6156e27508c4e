// SPDX-License-Identifier: Apache-2.0
// Passes of a Fourier transform on the CPU: a vector holds a value of 4 to 16 lanes, each a transform of its own, and a tile of
// them stays in the first cache. Values are loaded in reversed order of their digits and transformed in position.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "fft/butterflies.h"
#include "fft/packed_real.h"
#include "fft/problem.h"
#include "fft/roots_cpu.h"

namespace bk {
namespace {

constexpr int kMost = 128;              // values of a tile on the stack, 16 KiB: a call takes at most 32 KiB of stack
constexpr int kMostInWorkspace = 5120;  // of a tile in the workspace, which fits the second cache

// A vector of 64 bytes with AVX-512, else of 32.
template <class R, int kBytes>
struct TileLanes {
    static constexpr int kCount = kBytes / static_cast<int>(sizeof(R));
    typedef R V __attribute__((vector_size(kBytes)));
};

// Runs a step on a tile in the best variant for this machine. Its spilled vectors are on the stack no longer than it takes:
// inlined into one function all steps would keep theirs, which without AVX-512 is more than a tile.
template <int kBytes, class Step>
__attribute__((noinline)) void run_step(const Step& step) {
    const auto body = [&](int64_t, int64_t) BK_INLINED { step(); };
#if BK_ISA_DISPATCH
    if constexpr (kBytes == 64)
        return run_range_avx512(body, 0, 1);
    else if (isa() != Isa::kBase)
        return run_range_avx2(body, 0, 1);
#endif
    run_range(body, 0, 1);
}

// Interleaves two vectors: the first halves to `low`, the second ones to `high`.
template <class V>
BK_HD void interleave(const V& a, const V& b, V* low, V* high) {
    constexpr int kCount = sizeof(V) / sizeof(a[0]);
    if constexpr (kCount == 16) {
        *low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        *high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    } else if constexpr (kCount == 8) {
        *low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        *high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    } else {
        *low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        *high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    }
}

// Transposes a square of numbers, a vector a row: log2(kCount) rounds of interleaving rows i and i + kCount / 2.
template <class V, int kCount>
BK_HD void transpose_square(V (&rows)[kCount]) {
    V other[kCount];
    BK_UNROLL
    for (int round = 1; round < kCount; round *= 4) {
        BK_UNROLL
        for (int i = 0; i < kCount / 2; ++i) interleave(rows[i], rows[i + kCount / 2], &other[2 * i], &other[2 * i + 1]);
        if (2 * round >= kCount) {  // an odd number of rounds
            BK_UNROLL
            for (int i = 0; i < kCount; ++i) rows[i] = other[i];
            break;
        }
        BK_UNROLL
        for (int i = 0; i < kCount / 2; ++i) interleave(other[i], other[i + kCount / 2], &rows[2 * i], &rows[2 * i + 1]);
    }
}

// A tile's values, a vector each, and tables for one length.
template <class R, int kBytes>
struct TileMemory {
    using V = typename TileLanes<R, kBytes>::V;
    using Value = FftValue<V>;
    Value* value = nullptr;                  // n + 1 for packed real fibers
    R *c = nullptr, *s = nullptr;            // roots of n
    R *half_c = nullptr, *half_s = nullptr;  // roots of 2 n, the first n / 2 + 1
    uint16_t* position = nullptr;            // of each value

    static constexpr int64_t bytes(int64_t n) {
        return ((n + 1) * static_cast<int64_t>(sizeof(Value) + 2) + (3 * n + 2) * static_cast<int64_t>(sizeof(R)) + 63) / 64 *
               64;
    }
    TileMemory() = default;
    TileMemory(char* memory, int64_t n) : value(reinterpret_cast<Value*>(memory)) {
        c = reinterpret_cast<R*>(value + n + 1);
        s = c + n;
        half_c = s + n;
        half_s = half_c + n / 2 + 1;
        position = reinterpret_cast<uint16_t*>(half_s + n / 2 + 1);
    }
};

// Roots of unity of a period, exp(2 pi i k / period), as products of three of few.
struct RotationTable {
    static constexpr int kEach = 32, kLevels = 3;
    FftRoot<double> level[kLevels][kEach];
    bool is_long = true;  // the period is too long for the table

    BK_HD void fill(int64_t period) {
        is_long = period > int64_t{kEach} * kEach * kEach;
        int64_t step = 1;
        for (int d = 0; d < kLevels && !is_long; ++d, step *= kEach)
            for (int k = 0; k < kEach && k * step < period; ++k) level[d][k] = unit_root<double>(k * step, period);
    }
    // k < period.
    template <class R>
    BK_HD FftRoot<R> root(int64_t k, int64_t period) const {
        if (is_long) return unit_root<R>(k, period);
        const FftRoot<double>&a = level[2][k / (kEach * kEach)], &b = level[1][k / kEach % kEach], &c = level[0][k % kEach];
        const double re = a.c * b.c - a.s * b.s, im = a.s * b.c + a.c * b.s;
        return {static_cast<R>(re * c.c - im * c.s), static_cast<R>(im * c.c + re * c.s)};
    }
};

// Offsets at which the lanes of a tile begin on both sides.
template <int count>
struct LaneOffsets {
    int64_t in[count], out[count], position[count], rest[count];
    int used;
    bool reads_neighbours, writes_neighbours;  // lanes lie side by side
    bool is_at_start;                          // of every fiber

    BK_HD void find(const FftPass& pass, int64_t first, int64_t lanes) {
        used = static_cast<int>(std::min<int64_t>(count, lanes - first));
        int64_t at[kFftAxes];
        int64_t i = 0, o = 0, p = 0, r = 0;
        for (int a = 0; a < pass.axes; ++a) {
            const FftAxis& axis = pass.axis[a];
            at[a] = first % axis.extent;
            first /= axis.extent;
            i += at[a] * axis.in;
            o += at[a] * axis.out;
            p += at[a] * axis.position;
            r += at[a] * axis.rest;
        }
        for (int l = 0; l < count; ++l) {
            in[l] = i;
            out[l] = o;
            position[l] = p;
            rest[l] = r;
            for (int a = 0; l + 1 < used && a < pass.axes; ++a) {
                const FftAxis& axis = pass.axis[a];
                const int64_t step = ++at[a] == axis.extent ? 1 - axis.extent : 1;  // back to the start, and on along the next
                i += step * axis.in;
                o += step * axis.out;
                p += step * axis.position;
                r += step * axis.rest;
                if (step == 1) break;
                at[a] = 0;
            }
        }
        reads_neighbours = writes_neighbours = used == count;
        is_at_start = position[0] == 0;
        for (int l = 1; l < count; ++l) {
            reads_neighbours = reads_neighbours && in[l] == in[0] + l;
            writes_neighbours = writes_neighbours && out[l] == out[0] + l;
            is_at_start = is_at_start && position[l] == 0;
        }
    }
};

template <class R, int kBytes>
struct Tile {
    static constexpr int kLanes = TileLanes<R, kBytes>::kCount;
    using V = typename TileLanes<R, kBytes>::V;
    using Value = FftValue<V>;

    const TileMemory<R, kBytes> tables;
    Value* const value;
    LaneOffsets<kLanes> at;

    explicit Tile(const TileMemory<R, kBytes>& memory) : tables(memory), value(memory.value) {}

    // Positions are digits in reversed order, the last radix's first.
    BK_HD void fill_tables(const FftPass& pass, const FftRadices& radices) {
        fill_roots<R>(1, 0, pass.n, pass.n, tables.c, tables.s);
        if (pass.packing != FftPacking::kNone)
            fill_roots<R>(1, 0, 2 * int64_t{pass.n}, pass.n / 2 + 1, tables.half_c, tables.half_s);
        tables.position[0] = 0;
        tables.position[pass.n] = static_cast<uint16_t>(pass.n);
        int known = 1, size = pass.n;
        for (int p = radices.count; p-- > 0;) {
            const int r = radices.radix[p];
            size /= r;
            for (int d = 1; d < r; ++d)
                for (int e = 0; e < known; ++e)
                    tables.position[d * known + e] = static_cast<uint16_t>(tables.position[e] + d * size);
            known *= r;
        }
        for (int e = known; e < pass.n; ++e) tables.position[e] = static_cast<uint16_t>(e);  // transformed from the definition
    }

    // Whole fibers: lanes have the same positions.
    BK_HD bool is_whole(const FftPass& pass) const { return at.is_at_start && pass.position == 1; }

    BK_HD void load(const FftPass& pass, const R* x) {
        if (is_whole(pass)) return load_whole(pass, x);
        const bool is_chirped = pass.in_factor == FftFactor::kChirp;
        const bool is_complete = pass.present >= pass.length && !is_chirped;
        const bool is_plain = pass.in_factor == FftFactor::kNone;
        const bool is_swapped = pass.in_swaps[0] != pass.in_swaps[1];
        int start = 0;
        if (pass.in_form == FftForm::kComplex && pass.in == 1 && is_plain && is_complete)
            for (; start + kLanes / 2 <= pass.n; start += kLanes / 2) load_square(start, is_swapped, x);
        for (int e = start; e < pass.n; ++e) {
            Value& to = value[tables.position[e]];
            R* re = reinterpret_cast<R*>(&to.re);
            R* im = reinterpret_cast<R*>(&to.im);
            if (pass.in_factor == FftFactor::kFilter) {
                to = Value{V{} + R(1), V{}};
            } else if (pass.in_form != FftForm::kHermitian && at.reads_neighbours && is_complete) {
                to = load_neighbours(pass, e, x);
            } else {
                for (int l = 0; l < kLanes; ++l) {
                    const FftValue<R> one = load_one(pass, e, l, x, is_chirped);
                    re[l] = one.re;
                    im[l] = one.im;
                }
            }
            if (pass.in_swaps[0]) to = Value{to.im, to.re};
            if (pass.in_factor != FftFactor::kNone) multiply(pass, pass.in_factor, e, to);
            if (pass.in_swaps[1]) to = Value{to.im, to.re};
        }
    }

    BK_HD void load_whole(const FftPass& pass, const R* x) {
        const bool is_packed = pass.packing == FftPacking::kPacks, is_half = pass.in_form == FftForm::kHermitian;
        const bool is_plain = pass.in_factor == FftFactor::kNone && !is_half && !is_packed;
        const bool is_swapped = pass.in_swaps[0] != pass.in_swaps[1];
        const int64_t length = pass.in_factor == FftFactor::kChirp ? pass.length : pass.n;  // values behind are zero
        const int64_t stored = is_packed ? pass.n + 1 : is_half ? length / 2 + 1 : length;
        const bool has_pairs = pass.packing == FftPacking::kUnpacks;
        const int64_t present = has_pairs ? pass.present / 2 : pass.present;
        int own = pass.in_factor == FftFactor::kFilter ? 0 : static_cast<int>(std::min(stored, present));
        load_first(pass, own, is_plain && is_swapped, x);
        if (has_pairs && own < stored && pass.present % 2 == 1) load_single(own++, x);
        for (int e = own; e < pass.n; ++e) value[tables.position[e]] = Value{V{}, V{}};
        if (is_packed) return pack(pass.n, is_swapped);
        for (int k = 0; is_half && k < stored; ++k) {
            Value& to = value[tables.position[k]];
            if (k == 0 || 2 * k == length) {
                to.im = V{};
                continue;
            }
            const R interior = static_cast<R>(pass.interior);
            to = Value{to.re * interior, to.im * interior};
            value[tables.position[length - k]] = Value{to.re, -to.im};
        }
        if (is_plain) return;
        const int end = static_cast<int>(pass.in_factor == FftFactor::kFilter ? pass.n : length);
        for (int e = 0; e < end; ++e) {
            Value& to = value[tables.position[e]];
            if (pass.in_factor == FftFactor::kFilter) to.re = V{} + R(1);
            to = finished(pass, pass.in_factor, pass.in_swaps, e, to);
        }
    }

    // Values e < end of each lane.
    BK_HD void load_first(const FftPass& pass, int end, bool is_swapped, const R* x) {
        const bool is_real = pass.in_form == FftForm::kReal;
        int e = 0;
        if (pass.in == 1 && is_real)
            for (; e + kLanes <= end; e += kLanes) load_real_square(e, is_swapped, x);
        else if (pass.in == 1)
            for (; e + kLanes / 2 <= end; e += kLanes / 2) load_square(e, is_swapped, x);
        for (; e < end; ++e) {
            Value of;
            if (at.reads_neighbours) {
                of = load_neighbours(pass, e, x);
            } else {
                R* re = reinterpret_cast<R*>(&of.re);
                R* im = reinterpret_cast<R*>(&of.im);
                for (int l = 0; l < kLanes; ++l) {
                    const int64_t offset = at.in[l] + e * pass.in;
                    re[l] = is_real ? x[offset] : x[2 * offset];
                    im[l] = is_real ? R(0) : x[2 * offset + 1];
                }
            }
            store_pair(value[tables.position[e]], of, is_swapped);
        }
    }
    // The first number of pair e.
    BK_HD void load_single(int e, const R* x) {
        Value& to = value[tables.position[e]];
        R* re = reinterpret_cast<R*>(&to.re);
        for (int l = 0; l < kLanes; ++l) re[l] = x[2 * (at.in[l] + e)];
        to.im = V{};
    }
    BK_HD Value load_neighbours(const FftPass& pass, int e, const R* x) const {
        Value of;
        R* re = reinterpret_cast<R*>(&of.re);
        R* im = reinterpret_cast<R*>(&of.im);
        const int64_t offset = at.in[0] + e * pass.in;
        if (pass.in_form == FftForm::kReal) {
            __builtin_memcpy(re, x + offset, sizeof(V));
            of.im = V{};
        } else {
            const R* from = x + 2 * offset;
            BK_VECTOR_LOOP
            for (int l = 0; l < kLanes; ++l) {
                re[l] = from[2 * l];
                im[l] = from[2 * l + 1];
            }
        }
        return of;
    }

    // Value e of whole fibers behind the factor and the exchanges of a side.
    BK_HD Value finished(const FftPass& pass, FftFactor factor, const bool (&swaps)[2], int e, Value of) const {
        if (swaps[0]) of = Value{of.im, of.re};
        if (factor != FftFactor::kNone) {
            const auto* spectrum = static_cast<const FftValue<R>*>(pass.spectrum);
            const FftValue<R> by = factor == FftFactor::kSpectrum ? spectrum[e] : chirp<R>(factor, e, pass);
            of = Value{of.re * by.re - of.im * by.im, of.re * by.im + of.im * by.re};
        }
        return swaps[1] ? Value{of.im, of.re} : of;
    }

    // Values k and h - k, which coincide at h / 2.
    BK_HD void pack(int h, bool is_swapped) {
        const V first = value[0].re, last = value[h].re;
        store_pair(value[0], Value{first + last, first - last}, is_swapped);
        for (int k = 1; 2 * k <= h; ++k) {
            Value &to_a = value[tables.position[k]], &to_b = value[tables.position[h - k]], a = to_a, b = to_b;
            pack_pair(a, b, tables.half_c[k], tables.half_s[k]);
            store_pair(to_a, a, is_swapped);
            store_pair(to_b, b, is_swapped);
        }
    }
    BK_HD void unpack(int h) {
        const Value first = value[0];
        value[0] = Value{first.re + first.im, V{}};
        value[h] = Value{first.re - first.im, V{}};
        for (int k = 1; 2 * k <= h; ++k) {
            Value a = value[k], b = value[h - k];
            unpack_pair(a, b, tables.half_c[k], tables.half_s[k]);
            value[k] = a;
            value[h - k] = b;
        }
    }
    static BK_HD void store_pair(Value& to, const Value& of, bool is_swapped) { to = is_swapped ? Value{of.im, of.re} : of; }

    // kLanes / 2 values of each lane, which are contiguous: a square of real and imaginary parts.
    BK_HD void load_square(int e, bool is_swapped, const R* x) {
        V rows[kLanes];
        for (int l = 0; l < kLanes; ++l) __builtin_memcpy(&rows[l], x + 2 * (at.in[l] + e), sizeof(V));
        transpose_square(rows);
        for (int i = 0; i < kLanes / 2; ++i)
            value[tables.position[e + i]] = Value{rows[2 * i + is_swapped], rows[2 * i + !is_swapped]};
    }
    // kLanes real numbers of each lane.
    BK_HD void load_real_square(int e, bool is_swapped, const R* x) {
        V rows[kLanes];
        for (int l = 0; l < kLanes; ++l) __builtin_memcpy(&rows[l], x + at.in[l] + e, sizeof(V));
        transpose_square(rows);
        for (int i = 0; i < kLanes; ++i) store_pair(value[tables.position[e + i]], Value{rows[i], V{}}, is_swapped);
    }
    BK_HD void store_real_square(int k, bool is_swapped, R scale, R* y) const {
        V rows[kLanes];
        for (int i = 0; i < kLanes; ++i) rows[i] = (is_swapped ? value[k + i].im : value[k + i].re) * scale;
        transpose_square(rows);
        for (int l = 0; l < kLanes; ++l) __builtin_memcpy(y + at.out[l] + k, &rows[l], sizeof(V));
    }
    BK_HD void store_square(int k, bool is_swapped, R scale, R* y) const {
        V rows[kLanes];
        for (int i = 0; i < kLanes / 2; ++i) {
            rows[2 * i + is_swapped] = value[k + i].re * scale;
            rows[2 * i + !is_swapped] = value[k + i].im * scale;
        }
        transpose_square(rows);
        for (int l = 0; l < kLanes; ++l) __builtin_memcpy(y + 2 * (at.out[l] + k), &rows[l], sizeof(V));
    }

    BK_HD FftValue<R> load_one(const FftPass& pass, int e, int l, const R* x, bool is_chirped) const {
        const int64_t position = at.position[l] + e * pass.position;
        if (is_chirped && position >= pass.length) return {R(0), R(0)};
        if (pass.in_form != FftForm::kHermitian) {
            if (position >= pass.present) return {R(0), R(0)};
            if (pass.in_form == FftForm::kReal) return {x[at.in[l] + e * pass.in], R(0)};
            const R* from = x + 2 * (at.in[l] + e * pass.in);
            return {from[0], from[1]};
        }
        const bool is_upper = 2 * position > pass.length;
        const int64_t stored = is_upper ? pass.length - position : position;
        if (stored >= pass.present) return {R(0), R(0)};
        const R* from = x + 2 * (at.in[l] + stored * pass.in);
        if (stored == 0 || 2 * stored == pass.length) return {from[0], R(0)};
        const R interior = static_cast<R>(pass.interior);
        return {from[0] * interior, (is_upper ? -from[1] : from[1]) * interior};
    }

    // Multiplies value e of each lane by the factor of its position.
    BK_HD void multiply(const FftPass& pass, FftFactor factor, int e, Value& of) const {
        R* re = reinterpret_cast<R*>(&of.re);
        R* im = reinterpret_cast<R*>(&of.im);
        const auto* spectrum = static_cast<const FftValue<R>*>(pass.spectrum);
        for (int l = 0; l < kLanes; ++l) {
            const int64_t position = at.position[l] + e * pass.position;
            const FftValue<R> by = factor == FftFactor::kSpectrum ? spectrum[position] : chirp<R>(factor, position, pass);
            const R a = re[l], b = im[l];
            re[l] = a * by.re - b * by.im;
            im[l] = a * by.im + b * by.re;
        }
    }

    template <int r>
    BK_HD void radix_pass(int n, int m) {
        const int step = n / (m * r);
        for (int j = 0; j < m; ++j) {
            R c[r], s[r];
            for (int t = 1; t < r; ++t) {
                c[t] = tables.c[j * t * step];
                s[t] = tables.s[j * t * step];
            }
            for (int base = j; base < n; base += m * r) {
                Value a[r];
                a[0] = value[base];
                for (int t = 1; t < r; ++t) a[t] = j == 0 ? value[base + t * m] : rotated(value[base + t * m], c[t], s[t]);
                Butterfly<r, R, V>::apply(a);
                for (int t = 0; t < r; ++t) value[base + t * m] = a[t];
            }
        }
    }

    template <int r>
    void run_radix(int n, int m) {
        run_step<kBytes>([this, n, m]() BK_INLINED { radix_pass<r>(n, m); });
    }
    void transform(int n, const FftRadices& radices) {
        int m = 1;
        for (int p = 0; p < radices.count; m *= radices.radix[p++]) switch (radices.radix[p]) {
                case 2: run_radix<2>(n, m); break;
                case 3: run_radix<3>(n, m); break;
                case 4: run_radix<4>(n, m); break;
                case 5: run_radix<5>(n, m); break;
                case 7: run_radix<7>(n, m); break;
                case 8: run_radix<8>(n, m); break;
                case 11: run_radix<11>(n, m); break;
                case 13: run_radix<13>(n, m); break;
                default: break;
            }
    }

    // Multiplies value k of each lane by the root of unity k rest / period. The root of k is that of k without its lowest
    // bit, times that of the bit.
    BK_HD void rotate(const FftPass& pass, const RotationTable& rotations) {
        constexpr int kBits = 13;
        static_assert(kMostInWorkspace <= 1 << kBits, "a bit for each power");
        Value exact[kBits], product[kBits];
        for (int b = 0; 1 << b < pass.n; ++b)
            for (int l = 0; l < kLanes; ++l) {
                const FftRoot<R> root = rotations.template root<R>(at.rest[l] << b, pass.period);
                reinterpret_cast<R*>(&exact[b].re)[l] = root.c;
                reinterpret_cast<R*>(&exact[b].im)[l] = root.s;
            }
        for (int k = 1; k < pass.n; ++k) {
            const int low = __builtin_ctz(static_cast<unsigned>(k)), rest = k & (k - 1);
            Value root = exact[low];
            if (rest != 0) {
                const Value& before = product[__builtin_ctz(static_cast<unsigned>(rest))];
                root = Value{before.re * exact[low].re - before.im * exact[low].im,
                             before.re * exact[low].im + before.im * exact[low].re};
            }
            product[low] = root;
            value[k] = rotated(value[k], root.re, root.im);
        }
    }

    void store_all(const FftPass& pass, R* y) {
        if (is_whole(pass)) return run_step<kBytes>([&]() BK_INLINED { store_whole(pass, y); });
        const bool is_plain = pass.out_factor == FftFactor::kNone, is_swapped = pass.out_swaps[0] != pass.out_swaps[1];
        int k = 0;
        if (pass.out_form == FftForm::kComplex && pass.out == 1 && is_plain) {
            k = pass.n - pass.n % (kLanes / 2);
            run_step<kBytes>([&]() BK_INLINED {
                for (int e = 0; e < k; e += kLanes / 2) store_square(e, is_swapped, static_cast<R>(pass.scale), y);
            });
        }
        if (k == pass.n) return;
        run_step<kBytes>([&]() BK_INLINED {
            for (int e = k; e < pass.n; ++e) store(pass, e, value[e], y);
        });
    }
    BK_HD void store_whole(const FftPass& pass, R* y) {
        const bool unpacks = pass.packing == FftPacking::kUnpacks, is_half = pass.out_form == FftForm::kHermitian;
        const bool is_plain = pass.out_factor == FftFactor::kNone && (!is_half || pass.interior == 1);
        const bool is_swapped = is_plain && pass.out_swaps[0] != pass.out_swaps[1], is_real = pass.out_form == FftForm::kReal;
        const int64_t length = pass.out_factor == FftFactor::kChirp ? pass.length : pass.n;
        const int count = static_cast<int>(unpacks ? pass.n + 1 : is_half ? length / 2 + 1 : length);
        const R scale = static_cast<R>(pass.scale), interior = static_cast<R>(pass.interior);
        if (unpacks) unpack(pass.n);
        for (int k = 0; !is_plain && k < count; ++k) {
            const Value of = finished(pass, pass.out_factor, pass.out_swaps, k, value[k]);
            const bool is_edge = !is_half || k == 0 || 2 * k == length;
            value[k] = is_edge ? of : Value{of.re * interior, of.im * interior};
        }
        int k = 0;
        if (pass.out == 1 && is_real)
            for (; k + kLanes <= count; k += kLanes) store_real_square(k, is_swapped, scale, y);
        else if (pass.out == 1)
            for (; k + kLanes / 2 <= count; k += kLanes / 2) store_square(k, is_swapped, scale, y);
        for (; k < count; ++k) {
            Value of;
            store_pair(of, Value{value[k].re * scale, value[k].im * scale}, is_swapped);
            const R* re = reinterpret_cast<const R*>(&of.re);
            const R* im = reinterpret_cast<const R*>(&of.im);
            if (at.writes_neighbours && !is_real) {
                store_neighbours(re, im, y + 2 * (at.out[0] + k * pass.out));
                continue;
            }
            for (int l = 0; l < at.used; ++l) {
                R* to = y + (is_real ? 1 : 2) * (at.out[l] + k * pass.out);
                to[0] = re[l];
                if (!is_real) to[1] = im[l];
            }
        }
    }
    static BK_HD void store_neighbours(const R* re, const R* im, R* to) {
        BK_VECTOR_LOOP
        for (int l = 0; l < kLanes; ++l) {
            to[2 * l] = re[l];
            to[2 * l + 1] = im[l];
        }
    }
    BK_HD void store(const FftPass& pass, int k, Value result, R* y) const {
        if (pass.out_swaps[0]) result = Value{result.im, result.re};
        if (pass.out_factor != FftFactor::kNone) multiply(pass, pass.out_factor, k, result);
        if (pass.out_swaps[1]) result = Value{result.im, result.re};
        const R scale = static_cast<R>(pass.scale);
        result = Value{result.re * scale, result.im * scale};
        const R* re = reinterpret_cast<const R*>(&result.re);
        const R* im = reinterpret_cast<const R*>(&result.im);
        if (pass.out_form == FftForm::kComplex && at.writes_neighbours && pass.out_factor == FftFactor::kNone) {
            return store_neighbours(re, im, y + 2 * (at.out[0] + k * pass.out));
        }
        for (int l = 0; l < at.used; ++l) {
            const int64_t position = at.position[l] + k * pass.position;
            if (pass.out_factor == FftFactor::kChirp && position >= pass.length) continue;
            if (pass.out_form == FftForm::kReal) {
                y[at.out[l] + k * pass.out] = re[l];
                continue;
            }
            const bool is_half = pass.out_form == FftForm::kHermitian;
            if (is_half && 2 * position > pass.length) continue;
            const bool is_edge = !is_half || position == 0 || 2 * position == pass.length;
            const R interior = is_edge ? R(1) : static_cast<R>(pass.interior);
            R* to = y + 2 * (at.out[l] + (is_half ? position : k) * pass.out);
            to[0] = re[l] * interior;
            to[1] = im[l] * interior;
        }
    }

    // A transform from its definition, for lengths with large prime factors.
    BK_HD void store_direct(const FftPass& pass, R* y) const {
        for (int k = 0; k < pass.n; ++k) {
            Value sum{V{}, V{}};
            for (int e = 0, angle = 0; e < pass.n; ++e) {
                const Value term = rotated(value[e], tables.c[angle], tables.s[angle]);
                sum = sum + term;
                angle = angle + k >= pass.n ? angle + k - pass.n : angle + k;
            }
            store(pass, k, sum, y);
        }
    }
};

}  // namespace
}  // namespace bk

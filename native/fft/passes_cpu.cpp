// SPDX-License-Identifier: Apache-2.0
// Passes of a Fourier transform on the CPU, over tiles of fft/tile_cpu.h.
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "fft/core.h"
#include "fft/problem.h"
#include "fft/roots.h"
#include "fft/tile_cpu.h"

namespace bk {
namespace {

// Tiles of a pass: the chunks that threads have, each with memory of its own.
struct TileChunks {
    static constexpr int64_t kMost = 64;
    int64_t tiles, grain;

    static TileChunks of(int64_t n, int64_t lanes, int64_t tile_lanes) {
        const int64_t tiles = ceil_div<int64_t>(lanes, tile_lanes);
        return {tiles, std::max({int64_t{1}, (1 << 14) / (n * tile_lanes), ceil_div(tiles, kMost)})};
    }
    int64_t count() const { return ceil_div(tiles, grain); }
    int64_t number(int64_t begin) const { return begin / grain; }
};

template <class R, int kBytes>
void run_tiles(const FftPass& pass, const R* x, R* y, TileMemory<R, kBytes> memory, int64_t begin, int64_t end, int64_t lanes) {
    constexpr int kLanes = TileLanes<R, kBytes>::kCount;
    const FftRadices radices = FftRadices::of(pass.n);
    Tile<R, kBytes> tile(memory);
    run_step<kBytes>([&]() BK_INLINED { tile.fill_tables(pass, radices); });
    RotationTable rotations;
    if (pass.period != 0) run_step<kBytes>([&]() BK_INLINED { rotations.fill(pass.period); });
    for (int64_t t = begin; t < end; ++t) {
        run_step<kBytes>([&]() BK_INLINED {
            tile.at.find(pass, t * kLanes, lanes);
            tile.load(pass, x);
        });
        if (radices.count == 0) {
            run_step<kBytes>([&]() BK_INLINED { tile.store_direct(pass, y); });
            continue;
        }
        tile.transform(pass.n, radices);
        if (pass.period != 0) run_step<kBytes>([&]() BK_INLINED { tile.rotate(pass, rotations); });
        tile.store_all(pass, y);
    }
}

// The tile and its tables are on the stack.
template <class R, int kBytes>
void run_short_tiles(const FftPass& pass, const R* x, R* y, int64_t begin, int64_t end, int64_t lanes) {
    alignas(64) char memory[TileMemory<R, kBytes>::bytes(kMost)];
    run_tiles<R, kBytes>(pass, x, y, TileMemory<R, kBytes>(memory, pass.n), begin, end, lanes);
}

}  // namespace

template <class R>
int64_t fft_most_values() {
    return kMost;
}

template <class R>
int64_t fft_most_tile_values() {
    return kMostInWorkspace;
}

template <class R>
int64_t fft_tile_bytes(int64_t n, int64_t lanes) {
    if (n <= kMost) return 0;
    const auto bytes = [n, lanes](auto memory, int64_t tile_lanes) {
        return TileChunks::of(n, lanes, tile_lanes).count() * decltype(memory)::bytes(n);
    };
    return std::max(bytes(TileMemory<R, 64>{}, TileLanes<R, 64>::kCount), bytes(TileMemory<R, 32>{}, TileLanes<R, 32>::kCount));
}

template <class R, int kBytes>
Status fft_pass_of_lanes(const FftPass& pass, const void* x, void* y, void* tiles) {
    const int64_t lanes = pass.lanes();
    const TileChunks chunks = TileChunks::of(pass.n, lanes, TileLanes<R, kBytes>::kCount);
    split_ranges(chunks.tiles, chunks.grain, [&, lanes](int64_t begin, int64_t end) {
        const auto* from = static_cast<const R*>(x);
        auto* to = static_cast<R*>(y);
        if (pass.n <= kMost) return run_short_tiles<R, kBytes>(pass, from, to, begin, end, lanes);
        char* memory = static_cast<char*>(tiles) + chunks.number(begin) * TileMemory<R, kBytes>::bytes(pass.n);
        run_tiles<R, kBytes>(pass, from, to, TileMemory<R, kBytes>(memory, pass.n), begin, end, lanes);
    });
    return Status::kOk;
}

template <class R>
Status fft_pass(const FftPass& pass, const void* x, void* y, void* tiles, const Launch&) {
#if BK_ISA_DISPATCH
    // Half a vector where few lanes would leave threads idle, or half of each vector.
    const bool is_wide = pass.lanes() > TileLanes<R, 32>::kCount * thread_count();
    if (isa() == Isa::kAvx512 && is_wide) return fft_pass_of_lanes<R, 64>(pass, x, y, tiles);
#endif
    return fft_pass_of_lanes<R, 32>(pass, x, y, tiles);
}

template <class R>
Status fft_direct(const FftPass& fiber, const void* x, void* y, const Launch&) {
    const auto* from = static_cast<const R*>(x);
    auto* to = static_cast<R*>(y);
    const int64_t n = fiber.length, lanes = fiber.lanes();
    parallel_ranges(lanes * n, 64, [&, n](int64_t begin, int64_t end) BK_INLINED {
        LaneOffsets<1> at;
        for (int64_t index = begin; index < end; ++index) {
            at.find(fiber, index / n, lanes);
            const int64_t k = index % n;
            if (fiber.out_form == FftForm::kHermitian && 2 * k > n) continue;
            double re = 0, im = 0;
            for (int64_t j = 0, angle = 0; j < n; ++j) {
                const bool is_upper = fiber.in_form == FftForm::kHermitian && 2 * j > n;
                const int64_t offset = at.in[0] + (is_upper ? n - j : j) * fiber.in;
                const bool is_real =
                    fiber.in_form == FftForm::kReal || (fiber.in_form == FftForm::kHermitian && 2 * j % n == 0);
                const double a = fiber.in_form == FftForm::kReal ? from[offset] : from[2 * offset];
                const double b = is_real ? 0.0 : static_cast<double>(is_upper ? -from[2 * offset + 1] : from[2 * offset + 1]);
                const FftRoot<double> root = unit_root<double>(angle, n);
                const double s = fiber.in_swaps[0] ? -root.s : root.s;
                re += a * root.c + b * s;
                im += b * root.c - a * s;
                angle = angle + k >= n ? angle + k - n : angle + k;
            }
            const int64_t offset = at.out[0] + k * fiber.out;
            if (fiber.out_form == FftForm::kReal) {
                to[offset] = static_cast<R>(re * fiber.scale);
            } else {
                to[2 * offset] = static_cast<R>(re * fiber.scale);
                to[2 * offset + 1] = static_cast<R>(im * fiber.scale);
            }
        }
    });
    return Status::kOk;
}

template <class R>
Status fft_unscramble(const FftPass& fiber, const FftParts& parts, void* y, const Launch&) {
    struct Complex {
        R re, im;
    };
    auto* values = static_cast<Complex*>(y);
    const int64_t n = fiber.length, lanes = fiber.lanes();
    // The position of a value in the order of the parts, whose position is `position`.
    const auto source = [&parts](int64_t position, int64_t length) {
        int64_t at = 0;
        for (int p = 0; p < parts.count; ++p) {
            length /= parts.n[p];
            at += position % parts.n[p] * length;
            position /= parts.n[p];
        }
        return at;
    };
    parallel_ranges(lanes, 1, [&, n](int64_t begin, int64_t end) BK_INLINED {
        LaneOffsets<1> at;
        for (int64_t lane = begin; lane < end; ++lane) {
            at.find(fiber, lane, lanes);
            Complex* row = values + at.out[0];
            for (int64_t start = 0; start < n; ++start) {
                int64_t position = source(start, n);
                while (position > start) position = source(position, n);
                if (position != start || source(start, n) == start) continue;  // another value begins this cycle
                const Complex first = row[start * fiber.out];
                for (position = start;;) {
                    const int64_t from = source(position, n);
                    if (from == start) break;
                    row[position * fiber.out] = row[from * fiber.out];
                    position = from;
                }
                row[position * fiber.out] = first;
            }
        }
    });
    return Status::kOk;
}

template int64_t fft_most_values<float>();
template int64_t fft_most_values<double>();
template int64_t fft_most_tile_values<float>();
template int64_t fft_most_tile_values<double>();
template int64_t fft_tile_bytes<float>(int64_t, int64_t);
template int64_t fft_tile_bytes<double>(int64_t, int64_t);
template Status fft_pass<float>(const FftPass&, const void*, void*, void*, const Launch&);
template Status fft_pass<double>(const FftPass&, const void*, void*, void*, const Launch&);
template Status fft_direct<float>(const FftPass&, const void*, void*, const Launch&);
template Status fft_direct<double>(const FftPass&, const void*, void*, const Launch&);
template Status fft_unscramble<float>(const FftPass&, const FftParts&, void*, const Launch&);
template Status fft_unscramble<double>(const FftPass&, const FftParts&, void*, const Launch&);

}  // namespace bk

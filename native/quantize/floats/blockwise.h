// SPDX-License-Identifier: Apache-2.0
// Flat arrays in blocks with their largest magnitude in f32: four bits of a code book, as bitsandbytes has them, and eight
// bits of a map of 256 values, which also holds the magnitudes of others ("double quantisation", QLoRA, arXiv 2305.14314).
//
// A code is that of the value nearest to x * (1 / largest), ties to the lower value, of FP4 to the smaller magnitude. A
// block with NaN or an infinity has NaN as its largest magnitude; it and blocks of zeros have codes of 0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/collectives/items.h"
#include "core/collectives/team.h"
#include "quantize/floats/four_bit.h"
#include "quantize/floats/values.h"

namespace bk::floats {

constexpr int64_t kThreadBlock = 64;  // the largest block that one thread quantises
constexpr int64_t kTeamItems = 256;   // blocks of a team of such threads, and steps of others

// The largest magnitude of a block as it is stored: NaN if it is not finite.
BK_HD float stored_magnitude(float largest) { return is_finite_magnitude(largest) ? largest : bit_cast<float>(0x7fc00000u); }

// The factor of a value: 0 if the block has no codes of its own. The reciprocal of a subnormal may be infinite.
BK_HD float factor_of(float largest) { return is_finite_magnitude(largest) && largest > 0.0f ? reciprocal(largest) : 0.0f; }

BK_HD float scaled_by(float x, float factor) {
    const float y = math::product(x, factor);
    return y == y ? (y > 1.0f ? 1.0f : y < -1.0f ? -1.0f : y) : 0.0f;
}

// Rules for the codes of a block: set_up in the team's scratch, code of a value in [-1, 1], and store.
struct FourBitCodes {
    codec::CodeBook book;
    uint8_t* codes;

    BK_HD void set_up(const Team& team) const {
        codec::BookSearch* const search = static_cast<codec::BookSearch*>(team.scratch);
        for (int i = team.rank; i < codec::kBookCodes; i += team.size) search->set(book, i);
        team.sync();
    }
    // Elements i and i + 1; i is even.
    BK_HD void store(const Team& team, int64_t i, float first, float second, bool has_second) const {
        const codec::BookSearch* const search = static_cast<const codec::BookSearch*>(team.scratch);
        const uint32_t low = has_second ? search->nearest(book, second) : 0u;
        codes[i / 2] = static_cast<uint8_t>(search->nearest(book, first) << 4 | low);
    }
};

struct EightBitCodes {
    const float* map;  // ascending
    uint8_t* codes;

    BK_HD void set_up(const Team& team) const {
        float* const own = static_cast<float*>(team.scratch);
        for (int i = team.rank; i < 256; i += team.size) own[i] = map[i];
        team.sync();
    }
    BK_HD uint32_t code(const Team& team, float x) const { return nearest(static_cast<const float*>(team.scratch), x); }
    BK_HD void store(const Team& team, int64_t i, float first, float second, bool has_second) const {
        const float* const own = static_cast<const float*>(team.scratch);
        codes[i] = nearest(own, first);
        if (has_second) codes[i + 1] = nearest(own, second);
    }

private:
    BK_HD static uint8_t nearest(const float* own, float x) {
        int low = 0;  // the last value that is not above x, or the first one
        for (int step = 128; step > 0; step /= 2)
            if (own[low + step] <= x) low += step;
        const int high = low < 255 ? low + 1 : low;
        return static_cast<uint8_t>(difference(own[high], x) < difference(x, own[low]) ? high : low);
    }
};

// Blocks of an even size by teams, or those of at most kThreadBlock by threads.
template <class T, class Codes>
struct BlockwiseJob {
    int64_t numel, block, blocks;
    bool by_thread;
    const T* x;
    const float* offset;  // subtracted before; null is 0
    float* largest;
    Codes rule;

    BK_HD void operator()(const Team& team, int64_t item) const {
        rule.set_up(team);
        if (by_thread) {
            const int64_t end = (item + 1) * kTeamItems < blocks ? (item + 1) * kTeamItems : blocks;
            for (int64_t b = item * kTeamItems + team.rank; b < end; b += team.size) quantize(team, b, 0, 1);
        } else {
            quantize(team, item, team.rank, team.size);
        }
    }

private:
    BK_HD float value(int64_t i) const {
        const float one = widen(x[i]);
        return offset == nullptr ? one : difference(one, offset[0]);
    }
    BK_HD void quantize(const Team& team, int64_t b, int rank, int size) const {
        const int64_t begin = b * block, end = begin + block < numel ? begin + block : numel;
        uint32_t bits = 0;
        for (int64_t i = begin + rank; i < end; i += size) {
            const uint32_t own = bit_cast<uint32_t>(value(i)) & 0x7fffffffu;
            bits = own > bits ? own : bits;
        }
        if (!by_thread) bits = team.largest(bits);
        const float most = bit_cast<float>(bits), factor = factor_of(most);
        if (rank == 0) largest[b] = stored_magnitude(most);
        for (int64_t i = begin + 2 * rank; i < end; i += 2 * size) {
            const bool has_second = i + 1 < end;
            rule.store(team, i, scaled_by(value(i), factor), has_second ? scaled_by(value(i + 1), factor) : 0.0f, has_second);
        }
    }
};

// Runs the job, on a GPU by lanes that share blocks where it can.
template <class T, class Codes>
Status run_blockwise(const Launch& launch, const BlockwiseJob<T, Codes>& job);

template <class T, class Codes>
Status quantize_blocks(const Launch& launch, int64_t numel, int64_t block, const T* x, const float* offset, float* largest,
                       const Codes& rule) {
    const int64_t blocks = ceil_div(numel, block);
    const bool by_thread = block <= kThreadBlock;
    const BlockwiseJob<T, Codes> job{numel, block, blocks, by_thread, x, offset, largest, rule};
    return run_blockwise(launch, job);
}

template <class T, class Codes>
Status run_blockwise_teams(const Launch& launch, const BlockwiseJob<T, Codes>& job) {
    const int64_t items = job.by_thread ? ceil_div(job.blocks, kTeamItems) : job.blocks;
    return run_teams(launch, items, job.by_thread ? kTeamItems * job.block : job.block * 2, job, true);
}

inline Status check_blocks(int64_t numel, int32_t block_size) {
    BK_TRY(require_non_negative({{"numel", numel}}));
    if (block_size > 0 && block_size % 2 == 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "block_size is %d, must be even and > 0", block_size);
}

template <class T>
struct Quantize4Bit {
    int64_t numel;
    int32_t block_size, book;

    int64_t code_bytes() const { return ceil_div<int64_t>(numel, 2); }
    int64_t blocks() const { return ceil_div<int64_t>(numel, block_size); }
    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_blocks(numel, block_size));
        return require_member("book", book, 2);
    }
    Status run(const T* x, uint8_t* codes, float* absmax, const Launch& launch) const {
        return quantize_blocks(launch, numel, block_size, x, nullptr, absmax,
                               FourBitCodes{static_cast<codec::CodeBook>(book), codes});
    }
};

template <class T>
struct Quantize8BitBlocks {
    int64_t numel;
    int32_t block_size;

    int64_t blocks() const { return ceil_div<int64_t>(numel, block_size); }
    Work work() const { return all_or_none(numel); }
    Status check() const { return check_blocks(numel, block_size); }
    Status run(const T* x, const float* map, const float* offset, uint8_t* codes, float* absmax, const Launch& launch) const {
        return quantize_blocks(launch, numel, block_size, x, offset, absmax, EightBitCodes{map, codes});
    }
};

// Codes to numbers, some at a time, by a rule: load(e, count) gives Codes of kPart elements from e on, decode() their values
// where all of them are of one block, and value() that of one.
template <class T, class Rule>
struct DecodeJob {
    static constexpr int kPart = kDecodedLanes<T>, kAhead = 4;         // elements of a step, steps read together
    static constexpr int64_t kElements = kTeamItems * kAhead * kPart;  // of a team
    int64_t numel;
    Rule rule;
    bool is_aligned;
    T* out;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t begin = item * kElements, stop = begin + kElements, end = stop < numel ? stop : numel;
        const int64_t own = begin + int64_t{team.rank} * kPart, step = int64_t{team.size} * kPart;
        if (BK_CUDA && is_aligned && rule.has_one_block && rule.has_aligned_codes && stop <= numel &&
            step * kAhead == kElements)
            return decode_whole(team, own, step);
        const float* const table = rule.share(team);
        for (int64_t e = own; e < end; e += step) {
            const typename Rule::Codes codes = rule.load(e, numel - e);
            if (!rule.has_one_block) {
                store_each(table, codes, e);
                continue;
            }
            float values[kPart];
            rule.decode(table, codes, values);
            store_rounded(out + e, values, numel - e, is_aligned);
        }
    }

    Status run(const Launch& launch) const { return run_teams(launch, ceil_div(numel, kElements), kElements, *this, true); }

private:
    BK_HD void store_each(const float* table, const typename Rule::Codes& codes, int64_t e) const {
        for (int i = 0; i < kPart && e + i < numel; ++i) out[e + i] = narrow<T>(rule.value(table, codes, e, i));
    }
    // A team's elements, all in whole vectors: kAhead steps, without code for others.
    BK_HD void decode_whole(const Team& team, int64_t own, int64_t step) const {
        Rule whole = rule;
        whole.has_aligned_codes = true;
        typename Rule::Codes codes[kAhead];
        BK_UNROLL
        for (int i = 0; i < kAhead; ++i) codes[i] = whole.load(own + i * step, kPart);
        const float* const table = whole.share(team);
        BK_UNROLL
        for (int i = 0; i < kAhead; ++i) {
            float values[kPart];
            whole.decode(table, codes[i], values);
            store_rounded(out + own + i * step, values, kPart, true);
        }
    }
};

// Blocks of a flat array.
struct FlatBlocks {
    ItemSplit<2> split;

    static FlatBlocks of(int64_t numel, int64_t block) {
        const int64_t extents[] = {ceil_div(numel, block), block};
        return {ItemSplit<2>::of(extents)};
    }
    BK_HD int64_t at(int64_t e) const {
        int64_t index[2];
        split.indices(e, index);
        return index[0];
    }
};

// Bytes of codes and the magnitude of the first one's block.
struct PartCodes {
    uint64_t bytes;
    float scale;
};

template <int kPart>
struct FourBitDecode {
    using Codes = PartCodes;
    FourBitWeights w;  // of one row
    FlatBlocks blocks;
    bool has_one_block, has_aligned_codes;

    BK_HD const float* share(const Team& team) const { return share_book(team, w.book); }
    BK_HD Codes load(int64_t e, int64_t count) const {
        return {load_part<kPart / 2>(w.codes + e / 2, (count + 1) / 2, has_aligned_codes), w.maxima.of(blocks.at(e))};
    }
    BK_HD void decode(const float* book, const Codes& codes, float (&values)[kPart]) const {
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) values[i] = math::product(book[code(codes, i)], codes.scale);
    }
    BK_HD float value(const float* book, const Codes& codes, int64_t e, int i) const {
        return math::product(book[code(codes, i)], w.maxima.of(blocks.at(e + i)));
    }

private:
    BK_HD static uint32_t code(const Codes& codes, int i) {
        return static_cast<uint32_t>(codes.bytes >> (4 * (i ^ 1))) & 15u;  // even ones are in high halves
    }
};

template <int kPart>
struct EightBitDecode {
    using Codes = PartCodes;
    FlatBlocks blocks;
    bool has_one_block, has_aligned_codes;
    const uint8_t* codes;
    const float *map, *largest, *offset;

    BK_HD const float* share(const Team& team) const {
        float* const own = static_cast<float*>(team.scratch);
        for (int i = team.rank; i < 256; i += team.size) own[i] = map[i];
        team.sync();
        return own;
    }
    BK_HD Codes load(int64_t e, int64_t count) const {
        return {load_part<kPart>(codes + e, count, has_aligned_codes), largest[blocks.at(e)]};
    }
    BK_HD void decode(const float* own, const Codes& part, float (&values)[kPart]) const {
        BK_UNROLL
        for (int i = 0; i < kPart; ++i) values[i] = value_of(own, part, i, part.scale);
    }
    BK_HD float value(const float* own, const Codes& part, int64_t e, int i) const {
        return value_of(own, part, i, largest[blocks.at(e + i)]);
    }

private:
    BK_HD float value_of(const float* own, const Codes& part, int i, float scale) const {
        const float value = math::product(own[static_cast<uint32_t>(part.bytes >> (8 * i)) & 255u], scale);
        return offset == nullptr ? value : difference(value, -offset[0]);
    }
};

inline Status check_maxima(const float* absmax, const uint8_t* codes, const float* map, const float* outer,
                           const float* offset) {
    if (codes == nullptr) {
        if (absmax != nullptr) return Status::kOk;
        return fail(Status::kInvalidProblem, "absmax is NULL, and so is absmax_codes");
    }
    if (map == nullptr) return fail(Status::kInvalidProblem, "absmax_map is NULL, but absmax_codes is not");
    if (outer == nullptr) return fail(Status::kInvalidProblem, "absmax_outer is NULL, but absmax_codes is not");
    if (offset == nullptr) return fail(Status::kInvalidProblem, "absmax_offset is NULL, but absmax_codes is not");
    return Status::kOk;
}

template <class T>
struct Dequantize4Bit {
    int64_t numel;
    int32_t block_size, book;

    int64_t code_bytes() const { return ceil_div<int64_t>(numel, 2); }
    int64_t blocks() const { return ceil_div<int64_t>(numel, block_size); }
    int64_t outer_blocks() const { return ceil_div(blocks(), BlockMaxima::kOuterBlock); }
    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_blocks(numel, block_size));
        if (numel > kMaxOperandBytes / static_cast<int64_t>(sizeof(T)))
            return fail(Status::kInvalidProblem, "numel is %lld: y would have more than 2^47 bytes",
                        static_cast<long long>(numel));
        return require_member("book", book, 2);
    }
    Status run(const uint8_t* codes, const float* absmax, const uint8_t* absmax_codes, const float* absmax_map,
               const float* absmax_outer, const float* absmax_offset, T* y, const Launch& launch) const {
        BK_TRY(check_maxima(absmax, absmax_codes, absmax_map, absmax_outer, absmax_offset));
        constexpr int kPart = kDecodedLanes<T>;
        const BlockMaxima maxima{absmax, absmax_codes, absmax_map, absmax_outer, absmax_offset};
        const FourBitWeights w{
            FourBitLayout::kColumns, static_cast<codec::CodeBook>(book), 1, numel, block_size, codes, maxima};
        const FourBitDecode<kPart> rule{w, FlatBlocks::of(numel, block_size), block_size % kPart == 0,
                                        is_aligned(codes, kPart / 2)};
        return DecodeJob<T, FourBitDecode<kPart>>{numel, rule, is_aligned(y, kVectorBytes), y}.run(launch);
    }
};

template <class T>
struct Dequantize8BitBlocks {
    int64_t numel;
    int32_t block_size;

    int64_t blocks() const { return ceil_div<int64_t>(numel, block_size); }
    Work work() const { return all_or_none(numel); }
    Status check() const { return check_blocks(numel, block_size); }
    Status run(const uint8_t* codes, const float* absmax, const float* map, const float* offset, T* y,
               const Launch& launch) const {
        constexpr int kPart = kDecodedLanes<T>;
        const EightBitDecode<kPart> rule{
            FlatBlocks::of(numel, block_size), block_size % kPart == 0, is_aligned(codes, kPart), codes, map, absmax, offset};
        return DecodeJob<T, EightBitDecode<kPart>>{numel, rule, is_aligned(y, kVectorBytes), y}.run(launch);
    }
};

// y[m, r] = sum over c of w[r, c] x[m, c] + bias[r].
template <class T>
struct Gemv4Bit {
    int32_t m, n, k, block_size, book;

    int64_t numel() const { return int64_t{n} * k; }
    int64_t code_bytes() const { return ceil_div<int64_t>(numel(), 2); }
    int64_t blocks() const { return ceil_div<int64_t>(numel(), block_size); }
    int64_t outer_blocks() const { return ceil_div(blocks(), BlockMaxima::kOuterBlock); }
    Work work() const { return all_or_none(std::min(m, n)); }
    Status check() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(check_blocks(numel(), block_size));
        return require_member("book", book, 2);
    }
    Status run(const T* x, const uint8_t* codes, const float* absmax, const uint8_t* absmax_codes, const float* absmax_map,
               const float* absmax_outer, const float* absmax_offset, const T* bias, T* y, const Launch& launch) const {
        if (k > 0) BK_TRY(check_maxima(absmax, absmax_codes, absmax_map, absmax_outer, absmax_offset));
        const BlockMaxima maxima{absmax, absmax_codes, absmax_map, absmax_outer, absmax_offset};
        const FourBitWeights w{FourBitLayout::kColumns, static_cast<codec::CodeBook>(book), n, k, block_size, codes, maxima};
        return four_bit_product<FourBitLayout::kColumns>(launch, w, m, x, y, bias);
    }
};

}  // namespace bk::floats

#if BK_CUDA
#include "quantize/floats/blockwise_cuda.cuh"
#else
#include "quantize/floats/blockwise_cpu.h"
#endif

// SPDX-License-Identifier: Apache-2.0
// Words for pointwise functors that know their index (core/pointwise/pointwise.h): element e, in row-major order, has the
// word of number offset + e, or of number offset + e / shared where `shared` consecutive elements have one number.
#pragma once

#include <cstdint>

#include "core/layout/layout.h"
#include "core/platform.h"
#include "core/random/source.h"
#if !BK_IN_KERNEL
#include "core/random/word_buffer_cpu.h"
#endif

namespace bk {

// Index of the pointwise loop -> number of the element. The loop follows the memory of the first output; where that is not
// in row-major order each index is mapped by itself.
struct Numbering {
    int64_t shared = 1;
    bool is_permuted = false;
    Walk<1, uint64_t> walk;

    BK_HD uint64_t operator()(int64_t i) const {
        const uint64_t element = is_permuted ? walk(static_cast<uint64_t>(i)).of[0] : static_cast<uint64_t>(i);
        return shared == 1 ? element : element / static_cast<uint64_t>(shared);
    }
};

inline Numbering numbering_of(int32_t rank, const int32_t* shape, const int64_t* stride_y, int64_t shared) {
    Layout<2> elements;  // memory of the output, row-major index
    int64_t dense[8] = {}, product = 1;
    for (int32_t d = rank - 1; d >= 0; product *= shape[d--]) dense[d] = product;
    for (int32_t d = 0; d < rank; ++d) elements.append(shape[d], {stride_y[d], dense[d]});
    const Layout<2> walked = collapse(elements);
    Layout<1> numbers;
    numbers.rank = walked.rank;
    for (int d = 0; d < walked.rank; ++d) {
        numbers.extent[d] = walked.extent[d];
        numbers.stride[0][d] = walked.stride[1][d];
    }
    Numbering numbering;
    numbering.shared = shared;
    numbering.is_permuted = !numbers.is_contiguous(0);
    if (numbering.is_permuted) numbering.walk = Walk<1, uint64_t>(numbers);
    return numbering;
}

#if BK_IN_KERNEL
// Words of 16 bytes of elements: whole blocks, if the first number begins one; else of one number or of each by itself.
template <int Lanes>
struct WordSegment {
    static constexpr int kLanes = Lanes < 4 ? 4 : Lanes;
    static constexpr int64_t count = kLanes;
    uint32_t words[kLanes];

    BK_HD uint32_t word(int64_t k) const { return words[k]; }
    BK_HD void fill(const WordStream<1>& stream, const Numbering& numbering, int64_t i) {
        const bool is_plain = !numbering.is_permuted && numbering.shared == 1;
        if (is_plain && (stream.offset + static_cast<uint64_t>(i)) % 4 == 0)
            return words_of_blocks<kLanes>(stream, static_cast<uint64_t>(i), words);
        const uint64_t first = numbering(i);
        const bool is_shared = !numbering.is_permuted && numbering(i + kLanes - 1) == first;
#if BK_ON_GPU
#pragma unroll 1
#endif
        for (int k = 0; k < kLanes; ++k) {
            uint32_t word;
            stream.words(numbering(i + k), &word);
            if (is_shared) {
                BK_UNROLL
                for (int slot = 0; slot < kLanes; ++slot) words[slot] = word;
                break;
            }
            set_slot<kLanes>(words, k, word);
        }
    }
};
#else
template <int Lanes>
struct WordSegment {
    static constexpr int kNumbers = 512;
    WordBuffer<1, kNumbers> buffer;
    int64_t count;

    BK_HD uint32_t word(int64_t k) const { return *buffer.of(k); }
    BK_HD void fill(const WordStream<1>& stream, const Numbering& numbering, int64_t i) {
        count = kNumbers;
        if (!numbering.is_permuted && numbering.shared == 1)
            buffer.fill(stream, static_cast<uint64_t>(i), kNumbers);
        else
            fill_each(stream, numbering, i);
    }

private:
    BK_COLD void fill_each(const WordStream<1>& stream, const Numbering& numbering, int64_t i) {
        buffer.lead = 0;
        uint64_t last = 0;
        for (int k = 0; k < kNumbers; ++k) {
            const uint64_t number = numbering(i + k);
            if (k > 0 && number == last)
                buffer.word[k] = buffer.word[k - 1];
            else
                stream.words(number, buffer.word + k);
            last = number;
        }
    }
};
#endif

}  // namespace bk

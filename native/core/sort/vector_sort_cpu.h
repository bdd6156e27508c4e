// SPDX-License-Identifier: Apache-2.0
// Sorts of unsigned words on one thread of a CPU: a quicksort by AVX-512 where the processor has it, else a radix sort, least
// significant digit first. Words have no payload: equal ones cannot be told apart, so that the result is unique.
#pragma once

#include <cstdint>

#include "core/sort/ordered_key.h"

namespace bk {

// Sorts in ascending order; `other` has `count` words, whose content does not matter. A radix sort skips digits that all
// words share.
void sort_words(uint8_t* words, uint8_t* other, int64_t count);
void sort_words(uint16_t* words, uint16_t* other, int64_t count);
void sort_words(uint32_t* words, uint32_t* other, int64_t count);
void sort_words(uint64_t* words, uint64_t* other, int64_t count);

// The word of this rank in ascending order, 0 <= rank < count; words are permuted.
uint32_t select_word(uint32_t* words, uint32_t* other, int64_t count, int64_t rank);
uint64_t select_word(uint64_t* words, uint64_t* other, int64_t count, int64_t rank);

// Counts words below `low`, and appends those in [low, high], in their order, to `taken` up to `capacity`.
// `inside` is their number, whether they went there or not; with a capacity of 0 they are counted.
struct Between {
    int64_t below, inside;
};
Between take_between(const uint32_t* words, int64_t count, uint32_t low, uint32_t high, uint32_t* taken, int64_t capacity);
Between take_between(const uint64_t* words, int64_t count, uint64_t low, uint64_t high, uint64_t* taken, int64_t capacity);

// Positions of the words up to `limit`, in ascending order; returns their number. `positions` has a capacity of `count`.
int64_t find_at_most(const uint32_t* words, int64_t count, uint32_t limit, uint32_t* positions);
int64_t find_at_most(const uint64_t* words, int64_t count, uint64_t limit, uint64_t* positions);

// Keys of elements that are `step` apart.
void load_keys(const KeyOrder<uint8_t>& order, const uint8_t* x, int64_t step, int64_t count, uint32_t* keys);
void load_keys(const KeyOrder<uint16_t>& order, const uint16_t* x, int64_t step, int64_t count, uint32_t* keys);
void load_keys(const KeyOrder<uint32_t>& order, const uint32_t* x, int64_t step, int64_t count, uint32_t* keys);
void load_keys(const KeyOrder<uint64_t>& order, const uint64_t* x, int64_t step, int64_t count, uint64_t* keys);

// Whether sort_words is faster than a sorting network over several short arrays at a time.
bool has_vector_sort();

}  // namespace bk

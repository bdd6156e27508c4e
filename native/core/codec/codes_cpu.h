// SPDX-License-Identifier: Apache-2.0
// Codes of 16 values for the CPU's vector units: what Format::codes4 gives for e to e + 15, e a multiple of 16, as
// operations on a vector of bytes, which compilers lower to any instruction set. Formats without a specialisation gather
// their words.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/codec/gguf_floats.h"
#include "core/codec/gguf_iq.h"
#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"

namespace bk::codec {

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

BK_HD Bytes16 load_bytes(const uint8_t* from) {
    Bytes16 v;
    memcpy(&v, from, sizeof(v));
    return v;
}

// Logical shifts of 16-bit words: bits that arrive from the other byte are for the caller to mask. No instruction set
// shifts bytes.
BK_HD Bytes16 shifted_right(Bytes16 bytes, int count) {
    typedef uint16_t Words __attribute__((vector_size(16)));
    return reinterpret_cast<Bytes16>(reinterpret_cast<Words>(bytes) >> static_cast<uint16_t>(count));
}
BK_HD Bytes16 shifted_left(Bytes16 bytes, int count) {
    typedef uint16_t Words __attribute__((vector_size(16)));
    return reinterpret_cast<Bytes16>(reinterpret_cast<Words>(bytes) << static_cast<uint16_t>(count));
}

struct GatheredCodes {};

template <class Format>
struct Codes16 : GatheredCodes {
    static BK_HD Bytes16 read(const uint8_t* block, int e) {
        uint32_t words[4];
        for (int w = 0; w < 4; ++w) words[w] = Format::codes4(block, e + 4 * w);
        return load_bytes(reinterpret_cast<const uint8_t*>(words));
    }
};

// Low nibbles of 16 bytes for e 0, high ones for e 16.
BK_HD Bytes16 nibbles16_of_32(const uint8_t* bytes, int e) { return shifted_right(load_bytes(bytes), e / 4) & 15; }

template <>
struct Codes16<Q40> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return nibbles16_of_32(block + 2, e) - 8; }
};

template <>
struct Codes16<Q41> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return nibbles16_of_32(block + 4, e); }
};

// Bits e to e + 15 of a 32-bit word, as 16 or 0.
BK_HD Bytes16 fifths16(const uint8_t* word, int e) {
    typedef uint64_t Halves __attribute__((vector_size(16)));
    constexpr uint64_t kBits = 0x8040201008040201u, kEach = 0x0101010101010101u;
    const Bytes16 bits = reinterpret_cast<Bytes16>(Halves{kBits, kBits});
    const Bytes16 spread = reinterpret_cast<Bytes16>(Halves{word[e / 8] * kEach, word[e / 8 + 1] * kEach});
    return reinterpret_cast<Bytes16>((spread & bits) == bits) & 16;
}

template <>
struct Codes16<Q50> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) {
        return (nibbles16_of_32(block + 6, e) | fifths16(block + 2, e)) - 16;
    }
};

template <>
struct Codes16<Q51> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return nibbles16_of_32(block + 8, e) | fifths16(block + 4, e); }
};

template <>
struct Codes16<Q80> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return load_bytes(block + 2 + e); }
};

template <>
struct Codes16<Q81> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return load_bytes(block + 4 + e); }
};

template <>
struct Codes16<Q8K> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return load_bytes(block + 4 + e); }
};

// Bit `bit` of 32 bytes, of those for e.
BK_HD Bytes16 bits16(const uint8_t* bytes, int e, int bit) { return shifted_right(load_bytes(bytes + e % 32), bit) & 1; }

BK_HD Bytes16 twobits16(const uint8_t* bytes, int e) {
    return shifted_right(load_bytes(bytes + e / 128 * 32 + e % 32), e % 128 / 32 * 2) & 3;
}

BK_HD Bytes16 nibbles16_of_64(const uint8_t* bytes, int e) {
    return shifted_right(load_bytes(bytes + e / 64 * 32 + e % 32), e % 64 / 32 * 4) & 15;
}

template <>
struct Codes16<Q2K> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return twobits16(block + 16, e); }
};

template <>
struct Codes16<Q3K> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) {
        return (twobits16(block + 32, e) | shifted_left(bits16(block, e, e / 32), 2)) - 4;
    }
};

template <>
struct Codes16<Q4K> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return nibbles16_of_64(block + 16, e); }
};

template <>
struct Codes16<Q5K> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) {
        return nibbles16_of_64(block + 48, e) | shifted_left(bits16(block + 16, e, e / 32), 4);
    }
};

template <>
struct Codes16<Q6K> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) {
        const Bytes16 low = shifted_right(load_bytes(block + e / 128 * 64 + e % 64), e % 128 / 64 * 4) & 15;
        return (low | shifted_left(twobits16(block + 128, e), 4)) - 32;
    }
};

BK_HD Bytes16 iq4_16(Bytes16 nibbles) {
    Bytes16 table;
    memcpy(&table, kIq4Words, sizeof(table));
#if defined(__clang__)  // whose shuffles have constant indices
    Bytes16 codes;
    for (int i = 0; i < 16; ++i) codes[i] = table[nibbles[i]];
    return codes;
#else
    return __builtin_shuffle(table, nibbles);
#endif
}

template <>
struct Codes16<Iq4Nl> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return iq4_16(nibbles16_of_32(block + 2, e)); }
};

template <>
struct Codes16<Iq4Xs> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return iq4_16(nibbles16_of_32(block + 8 + e / 32 * 16, e % 32)); }
};

// Twice the values of sixteen codes of e2m1.
BK_HD Bytes16 doubled_e2m1_16(Bytes16 nibbles) {
    const Bytes16 code = nibbles & 7, above4 = reinterpret_cast<Bytes16>(code > 4),
                  above5 = reinterpret_cast<Bytes16>(code > 5), above6 = reinterpret_cast<Bytes16>(code > 6),
                  minus = reinterpret_cast<Bytes16>(nibbles > 7);
    const Bytes16 magnitude = code + (above4 & 1) + (above5 & 1) + (above6 & 3);
    return (magnitude ^ minus) - minus;
}

template <>
struct Codes16<Mxfp4> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) { return doubled_e2m1_16(nibbles16_of_32(block + 1, e)); }
};

template <>
struct Codes16<Nvfp4> {
    static BK_HD Bytes16 read(const uint8_t* block, int e) {
        typedef uint64_t Halves __attribute__((vector_size(16)));
        uint64_t bytes;
        memcpy(&bytes, block + 4 + e / 2, sizeof(bytes));
        return doubled_e2m1_16(reinterpret_cast<Bytes16>(Halves{bytes, bytes >> 4}) & 15);
    }
};

}  // namespace bk::codec

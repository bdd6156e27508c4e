// SPDX-License-Identifier: Apache-2.0
// All-reduce of small arrays over the devices of one host: y = x[0] + x[1] + ... in the order of the ranks, rounded once.
//
// Low-latency protocol, the idea of NCCL's LL: 8 bytes of data travel as a packet of two 64-bit words, each 4 bytes of data
// and the call's sequence number. The sender stores packets into the receiver's memory, the receiver polls its own: no fence
// and no flag apart, so that a message costs one way across NVLink. Twice the bytes are sent.
//
//   one-shot  every rank sends all to all, and reduces all: (ranks - 1) 2 bytes leave a rank
//   two-shot  every rank sends to each its share, reduces its own and sends the result to all: 2 (ranks - 1) / ranks 2 bytes
//
// A thread takes the same items in all steps and waits for packets of the same thread of its peers alone. Blocks are few
// enough to be resident at once, so that no wait keeps its cause from running.
//
// Layout of a rank's buffer: uint32_t sequence[kBlocks]; from kHeader on packets [phase][shot][source][block][round][thread].
// Phases alternate with the sequence number. A rank sends for call n + 2 when its call n + 1 has ended, hence when each peer
// has begun call n + 1, hence ended n: two phases suffice.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "core/collectives/peer_words.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::peers {

constexpr int kMostRanks = 8;
constexpr int kBlocks = 128, kThreads = 256;  // an SM holds two of these blocks, and an A100 has 108 SMs
constexpr int kItemBytes = 8;                 // data of a packet
constexpr int kHeader = 1024;                 // bytes
constexpr int kInFlight = 4;                  // items that a thread loads before it sends them
constexpr int kSum = 0, kProduct = 1, kMaximum = 2, kMinimum = 3, kMean = 4;

// Items of a thread by rounds, 2^shift: 16 MiB of packets for 2, 4 and 8 ranks.
constexpr BK_HD int round_shift(int ranks) { return ranks <= 2 ? 2 : ranks <= 4 ? 1 : 0; }
constexpr BK_HD int64_t packets_of_source(int ranks) { return int64_t{kBlocks * kThreads} << round_shift(ranks); }

struct Call {
    const void* x;
    void* y;
    char* buffer[kMostRanks];
    int64_t count, share;  // elements; items that a rank reduces
    int64_t timeout;
    int32_t* status;
    int32_t rank, ranks, op, blocks;
    bool has_two_shots, x_is_aligned, y_is_aligned;
};

// The part of thread `thread` of block `block` in a call.
template <class T>
class Lane {
    using C = compute_t<T>;
    static constexpr int kElements = kItemBytes / sizeof(T), kBits = 8 * sizeof(T);
    const Call& call_;
    int block_, thread_;
    uint32_t sequence_;

public:
    BK_HD Lane(const Call& call, int block, int thread) : call_(call), block_(block), thread_(thread) {
        const uint32_t done = *counter();
        sequence_ = done == UINT32_MAX ? 2 : done + 1;  // 0 is of new memory; the phase alternates
    }

    BK_HD uint32_t sequence() const { return sequence_; }
    BK_HD uint32_t* counter() const { return reinterpret_cast<uint32_t*>(call_.buffer[call_.rank]) + block_; }

    // Items are loaded four at a time.
    BK_HD void send() const {
        const int shift = round_shift(call_.ranks), all = (call_.has_two_shots ? call_.ranks : 1) << shift;
        for (int first = 0; first < all; first += kInFlight) {
            uint64_t item[kInFlight];
            BK_UNROLL
            for (int k = 0; k < kInFlight; ++k) item[k] = is_sent(first + k, all) ? load(item_of(first + k)) : 0;
            BK_UNROLL
            for (int k = 0; k < kInFlight; ++k) {
                if (!is_sent(first + k, all)) continue;
                const int round = round_of(first + k), to = (first + k) >> shift;
                if (!call_.has_two_shots)
                    send_to_all(0, round, item[k]);
                else if (to != call_.rank)
                    store_words(packet(to, 0, call_.rank, round), packed(item[k]));
            }
        }
    }

    // Reduces what all ranks have sent; false if a packet has not come.
    BK_HD bool reduce(PeerWait& wait) const {
        const int64_t first = call_.has_two_shots ? call_.rank * call_.share : 0;
        for (int round = 0; round < 1 << round_shift(call_.ranks) && index(round) < call_.share; ++round) {
            WordPair found[kMostRanks];
            const uint64_t own = load(first + index(round));
            if (!await(0, round, found, wait)) return false;
            C sums[kElements] = {};
            BK_UNROLL
            for (int rank = 0; rank < kMostRanks; ++rank) {
                if (rank >= call_.ranks) continue;
                T part[kElements];
                const uint64_t each = rank == call_.rank ? own : unpacked(found[rank]);
                memcpy(part, &each, kItemBytes);
                BK_UNROLL
                for (int e = 0; e < kElements; ++e) sums[e] = rank == 0 ? widen(part[e]) : combine(sums[e], widen(part[e]));
            }
            T results[kElements];
            BK_UNROLL
            for (int e = 0; e < kElements; ++e)
                results[e] = narrow<T>(call_.op == kMean ? sums[e] / static_cast<C>(call_.ranks) : sums[e]);
            uint64_t result;
            memcpy(&result, results, kItemBytes);
            store(first + index(round), result);
            if (call_.has_two_shots) send_to_all(1, round, result);
        }
        return true;
    }

    // Second shot: the results of the other ranks.
    BK_HD bool receive(PeerWait& wait) const {
        for (int round = 0; round < 1 << round_shift(call_.ranks) && index(round) < call_.share; ++round) {
            WordPair found[kMostRanks];
            if (!await(1, round, found, wait)) return false;
            BK_UNROLL
            for (int rank = 0; rank < kMostRanks; ++rank)
                if (is_peer(rank)) store(rank * call_.share + index(round), unpacked(found[rank]));
        }
        return true;
    }

private:
    // Number k of a thread's items is of round k % rounds and, in two shots, of rank k / rounds.
    BK_HD int round_of(int k) const { return k & ((1 << round_shift(call_.ranks)) - 1); }
    BK_HD int64_t item_of(int k) const { return (k >> round_shift(call_.ranks)) * call_.share + index(round_of(k)); }
    BK_HD bool is_sent(int k, int all) const { return k < all && index(round_of(k)) < call_.share; }

    // Item within a share.
    BK_HD int64_t index(int round) const { return (int64_t{round} * call_.blocks + block_) * kThreads + thread_; }

    BK_HD WordPair* packet(int owner, int shot, int source, int round) const {
        const int ranks = call_.ranks, phase = static_cast<int>(sequence_ & 1);
        const int slot = (((block_ << round_shift(ranks)) + round) * kThreads) + thread_;
        WordPair* const packets = reinterpret_cast<WordPair*>(call_.buffer[owner] + kHeader);
        return packets + ((phase * 2 + shot) * ranks + source) * packets_of_source(ranks) + slot;
    }

    BK_HD WordPair packed(uint64_t data) const {
        const uint64_t number = uint64_t{sequence_} << 32;
        return {{(data & 0xffffffffu) | number, data >> 32 | number}};
    }
    BK_HD static uint64_t unpacked(const WordPair& pair) { return (pair.word[0] & 0xffffffffu) | pair.word[1] << 32; }
    BK_HD bool has_come(const WordPair& pair) const {
        return pair.word[0] >> 32 == sequence_ && pair.word[1] >> 32 == sequence_;
    }

    BK_HD void send_to_all(int shot, int round, uint64_t data) const {
        for (int to = 0; to < call_.ranks; ++to)
            if (to != call_.rank) store_words(packet(to, shot, call_.rank, round), packed(data));
    }

    // Waits for the packets of all other ranks, whose loads are in flight together; false if one has not come.
    BK_HD bool await(int shot, int round, WordPair (&found)[kMostRanks], PeerWait& wait) const {
        const WordPair* const packets = packet(call_.rank, shot, 0, round);
        const int64_t pitch = packets_of_source(call_.ranks);
        BK_UNROLL
        for (int rank = 0; rank < kMostRanks; ++rank) found[rank] = {};
        for (;;) {
            BK_UNROLL
            for (int rank = 0; rank < kMostRanks; ++rank)
                if (is_peer(rank) && !has_come(found[rank])) found[rank] = load_words(packets + rank * pitch);
            int missing = -1;
            BK_UNROLL
            for (int rank = 0; rank < kMostRanks; ++rank)
                if (is_peer(rank) && !has_come(found[rank])) missing = rank;
            if (missing < 0) return true;
            if (!wait.goes_on(missing + 1)) return false;
        }
    }
    BK_HD bool is_peer(int rank) const { return rank < call_.ranks && rank != call_.rank; }

    // Elements behind the last are 0.
    BK_HD uint64_t load(int64_t item) const {
        const int64_t begin = item * kElements;
        if (call_.x_is_aligned && begin + kElements <= call_.count) return static_cast<const uint64_t*>(call_.x)[item];
        uint64_t data = 0;
        for (int e = 0; e < kElements && begin + e < call_.count; ++e)
            data |= uint64_t{static_cast<const bits_t<T>*>(call_.x)[begin + e]} << e * kBits;
        return data;
    }

    BK_HD void store(int64_t item, uint64_t data) const {
        const int64_t begin = item * kElements;
        if (call_.y_is_aligned && begin + kElements <= call_.count) {
            static_cast<uint64_t*>(call_.y)[item] = data;
            return;
        }
        for (int e = 0; e < kElements && begin + e < call_.count; ++e)
            static_cast<bits_t<T>*>(call_.y)[begin + e] = static_cast<bits_t<T>>(data >> e * kBits);
    }

    BK_HD C combine(C a, C b) const {
        switch (call_.op) {
            case kProduct: return a * b;
            case kMaximum: return a != a || a > b ? a : b;
            case kMinimum: return a != a || a < b ? a : b;
            default: return a + b;
        }
    }
};

// Defined in peer_all_reduce_cuda.cuh and peer_all_reduce_cpu.h.
template <class T>
Status run(const Launch& launch, const Call& call);

// --- functions of the ABI ---

inline bool serves(int ranks) { return ranks >= 1 && ranks <= kMostRanks; }

inline size_t buffer_bytes(int32_t ranks) {
    return serves(ranks) ? kHeader + sizeof(WordPair) * 4 * ranks * static_cast<size_t>(packets_of_source(ranks)) : 0;
}

inline int64_t message_bytes(int32_t ranks, int32_t shots) {
    if (!serves(ranks) || shots < 0 || shots > 2) return 0;
    return packets_of_source(ranks) * kItemBytes * (shots == 1 ? 1 : ranks);
}

// Two shots send fewer bytes, (ranks - 1) (ranks - 2) / ranks 2 bytes less, and wait once more for the way across NVLink,
// some 1.5 us, in which 512 KiB leave an H100 at 350 GB/s: an estimate, which no measurement on more than two devices has
// replaced. They save nothing on two devices.
inline bool pays_two_shots(int ranks, int64_t bytes) {
    return bytes > message_bytes(ranks, 1) || 2 * (ranks - 1) * (ranks - 2) * bytes > int64_t{ranks} * (512 << 10);
}

template <class T>
Status all_reduce(int64_t count, const void* x, void* y, void* const* buffers, int32_t rank, int32_t ranks, int32_t op,
                  int32_t shots, int64_t timeout, void* status, void* stream) {
    if (!serves(ranks)) return fail(Status::kUnsupported, "ranks is %d, must be in [1, %d]", ranks, kMostRanks);
    if (rank < 0 || rank >= ranks) return fail(Status::kInvalidProblem, "rank is %d, must be in [0, %d)", rank, ranks);
    if (op < kSum || op > kMean) return fail(Status::kInvalidProblem, "op is %d, must be in [0, 4]", op);
    if (shots < 0 || shots > 2) return fail(Status::kInvalidProblem, "shots is %d, must be in [0, 2]", shots);
    if (timeout < 0) return fail(Status::kInvalidProblem, "timeout_ns is %lld, must be >= 0", static_cast<long long>(timeout));
    if (count < 0) return fail(Status::kInvalidProblem, "count is %lld, must be >= 0", static_cast<long long>(count));
    const int64_t most = message_bytes(ranks, shots) / static_cast<int64_t>(sizeof(T));
    if (count > most)
        return fail(Status::kUnsupported, "count is %lld, must be at most %lld for %d ranks", static_cast<long long>(count),
                    static_cast<long long>(most), ranks);
    if (count == 0) return Status::kOk;
    const struct {
        const char* name;
        const void* pointer;
        size_t alignment;
    } given[] = {{"x", x, sizeof(T)}, {"y", y, sizeof(T)}, {"buffers", buffers, 1}, {"status", status, 4}};
    for (const auto& each : given) {
        if (each.pointer == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", each.name);
        if (reinterpret_cast<uintptr_t>(each.pointer) % each.alignment != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %zu", each.name, each.pointer, each.alignment);
    }
    Call call{};
    for (int r = 0; r < ranks; ++r) {
        if (buffers[r] == nullptr) return fail(Status::kInvalidProblem, "buffers[%d] is NULL", r);
        if (reinterpret_cast<uintptr_t>(buffers[r]) % sizeof(WordPair) != 0)
            return fail(Status::kMisaligned, "buffers[%d] is %p, must be aligned to 16", r, buffers[r]);
        call.buffer[r] = static_cast<char*>(buffers[r]);
    }
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T)), items = ceil_div<int64_t>(bytes, kItemBytes);
    call.x = x;
    call.y = y;
    call.count = count;
    call.has_two_shots = ranks > 1 && (shots == 2 || (shots == 0 && pays_two_shots(ranks, bytes)));
    call.share = call.has_two_shots ? ceil_div<int64_t>(items, ranks) : items;
    call.timeout = timeout;
    call.status = static_cast<int32_t*>(status);
    call.rank = rank;
    call.ranks = ranks;
    call.op = op;
    const int64_t blocks = ceil_div<int64_t>(call.share, kThreads);
    call.blocks = static_cast<int32_t>(blocks < kBlocks ? blocks : kBlocks);
    call.x_is_aligned = reinterpret_cast<uintptr_t>(x) % kItemBytes == 0;
    call.y_is_aligned = reinterpret_cast<uintptr_t>(y) % kItemBytes == 0;
    return run<T>({nullptr, 0, stream}, call);
}

}  // namespace bk::peers

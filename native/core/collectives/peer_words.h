// SPDX-License-Identifier: Apache-2.0
// Words in memory that several devices, or several threads of the CPU, write and read without other synchronisation. A
// word of 64 bits is stored and loaded whole; the order of different words is not defined.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

// Two words that one instruction moves.
struct alignas(16) WordPair {
    uint64_t word[2];
};

}  // namespace bk

#if BK_CUDA
#include "core/collectives/peer_words_cuda.cuh"
#else
#include "core/collectives/peer_words_cpu.h"
#endif

namespace bk {

// A bounded wait of one thread. It fails when the time is over, which *status then tells, or when *status is not 0.
class PeerWait {
    static constexpr int kPolls = 64;                  // between looks at the clock, some 30 us on an H100
    static constexpr int64_t kStatusEvery = 20000000;  // ns: *status may be in memory of the host, behind PCIe
    int64_t timeout_, begin_ = 0, look_ = 0;
    int32_t* status_;
    int polls_ = 0;

public:
    BK_HD PeerWait(int64_t timeout, int32_t* status) : timeout_(timeout), status_(status) {}

    // Called after each poll without success; `code` becomes *status when the time is over.
    BK_HD bool goes_on(int32_t code) {
        if (++polls_ < kPolls) return true;
        polls_ = 0;
        const int64_t now = nanoseconds();
        if (begin_ == 0) begin_ = look_ = now;
        if (now >= look_) {
            if (load_status(status_) != 0) return false;
            look_ = now + kStatusEvery;
        }
        if (now - begin_ >= timeout_) {
            if (load_status(status_) == 0) store_status(status_, code);
            return false;
        }
        pause_briefly();
        return true;
    }
};

}  // namespace bk

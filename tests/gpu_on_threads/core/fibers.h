// SPDX-License-Identifier: Apache-2.0
// Threads of a GPU block as fibers of one CPU thread. A fiber runs until it waits, so that results are reproducible,
// and a barrier that some threads never reach aborts the program instead of hanging it.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace fibers {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kWarp = 32;
// An odd number of cache lines: at a power of two the stacks of all fibers would share a few sets of each cache.
constexpr size_t kStackBytes = (size_t{1} << 18) + 7 * 64;
constexpr size_t kMaxShared = size_t{163} << 10;  // dynamic shared memory that sm_80 allows a block, in bytes

// Saved state of a fiber or of the scheduler.
#if defined(__x86_64__)
struct Context {
    void* stack;
};

// swapcontext makes a system call for signals, which costs more than most of what runs between switches.
__attribute__((noinline)) inline void switch_to(Context* from, Context* to) {
    void **save = &from->stack, *stack = to->stack;
    asm volatile(
        "subq $128, %%rsp\n\tpushq %%rbp\n\tpushq %%rbx\n\tleaq 1f(%%rip), %%rax\n\tpushq %%rax\n\t"
        "movq %%rsp, (%0)\n\tmovq %1, %%rsp\n\tpopq %%rax\n\tjmp *%%rax\n"
        "1:\tpopq %%rbx\n\tpopq %%rbp\n\taddq $128, %%rsp"
        : "+D"(save), "+S"(stack)
        :
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
          "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

inline void prepare(Context* context, char* stack, void (*entry)()) {
    void** const top = reinterpret_cast<void**>(stack + kStackBytes) - 1;
    top[0] = nullptr;  // return address slot: the stack is then aligned as after a call
    top[-1] = reinterpret_cast<void*>(entry);
    context->stack = top - 1;
}
#else
using Context = ucontext_t;

inline void switch_to(Context* from, Context* to) { swapcontext(from, to); }

inline void prepare(Context* context, char* stack, void (*entry)()) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = kStackBytes;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
}
#endif

struct Fiber {
    Context context;
    bool has_started;
    unsigned mask;  // lanes that it waits for
    uint32_t word;  // word that it exchanges with them
};

// Lanes of a warp, a bit each. Those in none of the three wait for the block.
struct Warp {
    unsigned ready;
    unsigned waiting;  // for lanes of the warp
    unsigned done;     // or beyond the block
};

inline Fiber fiber[kMaxThreads];
inline Warp warp_of[kMaxThreads / kWarp];
inline uint32_t exchanged[kMaxThreads];  // words of the last exchange, by thread
inline Context scheduler;
inline unsigned current, threads, alive, at_block, blocks_run;
inline unsigned cluster;        // blocks per cluster
inline int cluster_rounds = 2;  // runs of a grid with clusters
inline void (*body)(void*);
inline void* body_argument;
inline void (*on_switch)(unsigned thread);
inline std::mutex one_launch;

[[noreturn]] inline void die(const char* what) {
    fprintf(stderr, "thread %u of %u: %s\n", current, threads, what);
    abort();
}

inline void yield_to_scheduler() { switch_to(&fiber[current].context, &scheduler); }

inline void begin() {
    for (;;) {
        body(body_argument);
        Warp& warp = warp_of[current / kWarp];
        warp.ready &= ~(1u << current % kWarp);
        warp.done |= 1u << current % kWarp;
        --alive;
        yield_to_scheduler();
    }
}

inline char* stacks() {
    static char* const memory = [] {
        void* const p = mmap(nullptr, kStackBytes * kMaxThreads, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
    }();
    if (memory == nullptr) die("no memory for stacks");
    return memory;
}

inline void resume(unsigned t) {
    current = t;
    on_switch(t);
    Fiber& f = fiber[t];
    if (!f.has_started) prepare(&f.context, stacks() + t * kStackBytes, begin);
    f.has_started = true;
    switch_to(&scheduler, &f.context);
}

// The lowest of the lanes, or the highest.
inline unsigned first_lane(unsigned lanes, bool reversed) {
    return static_cast<unsigned>(reversed ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes));
}

// Releases the lanes of `mask` if all that are alive have arrived with the same mask.
inline bool release_warp(unsigned w, unsigned mask) {
    Warp& warp = warp_of[w];
    const unsigned wanted = mask & ~warp.done;
    if ((wanted & ~warp.waiting) != 0) return false;
    for (unsigned lanes = wanted; lanes != 0; lanes &= lanes - 1)
        if (fiber[w * kWarp + first_lane(lanes, false)].mask != mask) return false;
    for (unsigned lanes = wanted; lanes != 0; lanes &= lanes - 1) {
        const unsigned t = w * kWarp + first_lane(lanes, false);
        exchanged[t] = fiber[t].word;
    }
    warp.waiting &= ~wanted;
    warp.ready |= wanted;
    return true;
}

// Exchanges words: afterwards exchanged[] holds the word of each lane in `mask`.
inline void sync_warp(unsigned mask, uint32_t word) {
    const unsigned lane = 1u << current % kWarp;
    if ((mask & lane) == 0) die("a lane is not in its own mask");
    Warp& warp = warp_of[current / kWarp];
    warp.ready &= ~lane;
    warp.waiting |= lane;
    fiber[current].mask = mask;
    fiber[current].word = word;
    if (!release_warp(current / kWarp, mask)) yield_to_scheduler();
}

inline void sync_block() {
    warp_of[current / kWarp].ready &= ~(1u << current % kWarp);
    ++at_block;
    yield_to_scheduler();
}

// Runs lanes until none can go on; false if none could.
inline bool run_warp(unsigned w, bool reversed) {
    Warp& warp = warp_of[w];
    if (warp.ready == 0) return false;
    while (warp.ready != 0) {
        for (unsigned remaining = ~0u; (warp.ready & remaining) != 0;) {
            const unsigned lane = first_lane(warp.ready & remaining, reversed), before = alive;
            remaining = reversed ? (1u << lane) - 1 : ~1u << lane;
            resume(w * kWarp + lane);
            if (alive == before) continue;
            for (unsigned lanes = warp.waiting; lanes != 0; lanes &= lanes - 1)  // for the lane that is done
                release_warp(w, fiber[w * kWarp + first_lane(lanes, false)].mask);
        }
    }
    return true;
}

// Runs one block: warp after warp, each until none of its lanes can go on.
inline void run_block(bool reversed) {
    const unsigned warps = (threads + kWarp - 1) / kWarp;
    for (unsigned w = 0; w < warps; ++w) {
        const unsigned lanes = threads - w * kWarp < kWarp ? (1u << (threads - w * kWarp)) - 1 : ~0u;
        warp_of[w] = {lanes, 0, ~lanes};
    }
    alive = threads, at_block = 0, ++blocks_run;
    while (alive > 0) {
        bool progressed = false;
        for (unsigned w = 0; w < warps; ++w) progressed |= run_warp(reversed ? warps - 1 - w : w, reversed);
        if (alive > 0 && at_block == alive) {
            at_block = 0;
            for (unsigned w = 0; w < warps; ++w) warp_of[w].ready = ~warp_of[w].done;
        } else if (!progressed) {
            die("waits for threads that wait for something else");
        }
    }
}

}  // namespace fibers

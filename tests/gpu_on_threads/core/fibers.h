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
constexpr size_t kStackBytes = size_t{1} << 18;
constexpr size_t kMaxShared = size_t{163} << 10;  // dynamic shared memory that sm_80 allows a block, in bytes

enum class State { kReady, kAtBlock, kAtWarp, kDone };

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
    State state;
    unsigned mask;  // lanes that it waits for
    uint32_t word;  // word that it exchanges with them
};

inline Fiber fiber[kMaxThreads];
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
        fiber[current].state = State::kDone;
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

// Releases the lanes of `mask` if all that are alive have arrived with the same mask.
inline bool release_warp(unsigned warp, unsigned mask) {
    const unsigned first = warp * kWarp;
    for (unsigned lane = 0; lane < kWarp && first + lane < threads; ++lane) {
        const Fiber& f = fiber[first + lane];
        if (!(mask >> lane & 1) || f.state == State::kDone) continue;
        if (f.state != State::kAtWarp || f.mask != mask) return false;
    }
    for (unsigned lane = 0; lane < kWarp && first + lane < threads; ++lane) {
        Fiber& f = fiber[first + lane];
        if (!(mask >> lane & 1) || f.state == State::kDone) continue;
        exchanged[first + lane] = f.word;
        f.state = State::kReady;
    }
    return true;
}

// Exchanges words: afterwards exchanged[] holds the word of each lane in `mask`.
inline void sync_warp(unsigned mask, uint32_t word) {
    Fiber& f = fiber[current];
    if (!(mask >> (current % kWarp) & 1)) die("a lane is not in its own mask");
    f.state = State::kAtWarp;
    f.mask = mask;
    f.word = word;
    if (!release_warp(current / kWarp, mask)) yield_to_scheduler();
}

inline void sync_block() {
    fiber[current].state = State::kAtBlock;
    ++at_block;
    yield_to_scheduler();
}

// Runs one block: warp after warp, each until none of its lanes can go on.
inline void run_block(bool reversed) {
    for (unsigned t = 0; t < threads; ++t) fiber[t].state = State::kReady;
    alive = threads, at_block = 0, ++blocks_run;
    const unsigned warps = (threads + kWarp - 1) / kWarp;
    while (alive > 0) {
        bool progressed = false;
        for (unsigned w = 0; w < warps; ++w) {
            const unsigned first = (reversed ? warps - 1 - w : w) * kWarp;
            const unsigned lanes = threads - first < kWarp ? threads - first : kWarp;
            for (bool again = true; again;) {
                again = false;
                for (unsigned l = 0; l < lanes; ++l) {
                    const unsigned t = first + (reversed ? lanes - 1 - l : l);
                    if (fiber[t].state != State::kReady) continue;
                    resume(t);
                    again = progressed = true;
                    if (fiber[t].state == State::kDone) {
                        --alive;
                        for (unsigned k = 0; k < lanes; ++k)
                            if (fiber[first + k].state == State::kAtWarp) release_warp(first / kWarp, fiber[first + k].mask);
                    }
                }
            }
        }
        if (alive > 0 && at_block == alive) {
            at_block = 0;
            for (unsigned t = 0; t < threads; ++t)
                if (fiber[t].state == State::kAtBlock) fiber[t].state = State::kReady;
        } else if (!progressed) {
            die("waits for threads that wait for something else");
        }
    }
}

}  // namespace fibers

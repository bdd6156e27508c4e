/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the stack a call takes: it runs on a thread whose stack had a pattern before. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { kSize = 1 << 20, kPattern = 0xA5, kRegisters = 8, kMost = 64 };

/* Integers and pointers, then floating-point numbers as bits: in either order calling conventions of x86-64 and aarch64 pass
   them in the same registers, as long as these suffice. */
struct call {
    void (*function)(void);
    uint64_t integers[kMost];
    double numbers[kRegisters];
    int32_t status;
};

#define INTEGERS8(a, i) a[i], a[i + 1], a[i + 2], a[i + 3], a[i + 4], a[i + 5], a[i + 6], a[i + 7]
#define TYPES8(t) t, t, t, t, t, t, t, t

static void* run(void* argument) {
    struct call* const c = argument;
    typedef int32_t function_type(TYPES8(uint64_t), TYPES8(uint64_t), TYPES8(uint64_t), TYPES8(uint64_t), TYPES8(uint64_t),
                                  TYPES8(uint64_t), TYPES8(uint64_t), TYPES8(uint64_t), TYPES8(double));
    function_type* function;
    memcpy(&function, &c->function, sizeof function);
    c->status = function(INTEGERS8(c->integers, 0), INTEGERS8(c->integers, 8), INTEGERS8(c->integers, 16),
                         INTEGERS8(c->integers, 24), INTEGERS8(c->integers, 32), INTEGERS8(c->integers, 40),
                         INTEGERS8(c->integers, 48), INTEGERS8(c->integers, 56), INTEGERS8(c->numbers, 0));
    return NULL;
}

/* Bytes of the stack that have changed below its top, the thread's own included; -1 if no thread could be started. */
int64_t stack_of(struct call* call) {
    unsigned char* const stack = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return -1;
    memset(stack, kPattern, kSize);
    pthread_attr_t attributes;
    pthread_t thread;
    int64_t untouched = -1;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, kSize);
    if (pthread_create(&thread, &attributes, run, call) == 0) {
        pthread_join(thread, NULL);
        for (untouched = 0; untouched < kSize && stack[untouched] == kPattern;) ++untouched;
    }
    pthread_attr_destroy(&attributes);
    munmap(stack, kSize);
    return untouched < 0 ? -1 : kSize - untouched;
}

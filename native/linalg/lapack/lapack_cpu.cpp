// SPDX-License-Identifier: Apache-2.0
#include "linalg/lapack/lapack_cpu.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bk::linalg {

namespace {

// --- the library -------------------------------------------------------------------------------------------------------

constexpr const char* kSoname = "libscipy_openblas64_.so";

// Handle of the library, which is never closed, and its functions of threads.
struct OpenBlas {
    void* library = nullptr;
    int (*get_threads)() = nullptr;
    void (*set_threads)(int) = nullptr;

    OpenBlas() {
        const char* const wanted = getenv("BARACUDA_LAPACK");
        if (wanted != nullptr && strcmp(wanted, "off") == 0) return;
        library = dlopen(wanted != nullptr && wanted[0] != 0 ? wanted : kSoname, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return;
        get_threads = reinterpret_cast<int (*)()>(dlsym(library, "scipy_openblas_get_num_threads64_"));
        set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "scipy_openblas_set_num_threads64_"));
        if (get_threads == nullptr || set_threads == nullptr) library = nullptr;
    }
};

const OpenBlas& openblas() {
    static const OpenBlas found;
    return found;
}

// --- threads -----------------------------------------------------------------------------------------------------------

// The mutex guards these numbers, and is never held during a call into OpenBLAS but for that of its threads.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t is_idle = PTHREAD_COND_INITIALIZER;
int64_t scopes = 0, current = 0, others = 0;  // open scopes, their threads, and the number outside of scopes
thread_local int64_t depth = 0;

void before_fork() {
    pthread_mutex_lock(&mutex);
    while (scopes > 0) pthread_cond_wait(&is_idle, &mutex);
}
void after_fork_in_parent() { pthread_mutex_unlock(&mutex); }
void after_fork_in_child() {
    is_idle = PTHREAD_COND_INITIALIZER;  // its waiting threads are not in the child
    pthread_mutex_unlock(&mutex);
}

}  // namespace

bool find_lapack(char letter, const char* const* names, size_t count, void** addresses) {
    if (openblas().library == nullptr) return false;
    static const bool watches_forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    for (size_t k = 0; k < count; ++k) {
        char symbol[32];
        snprintf(symbol, sizeof(symbol), "scipy_%c%s_64_", letter, names[k]);
        addresses[k] = dlsym(openblas().library, symbol);
        if (addresses[k] == nullptr) return false;
    }
    return watches_forks;
}

LapackThreads::LapackThreads(int64_t threads) : is_open_(threads > 0) {
    if (!is_open_ || depth++ > 0) return;
    pthread_mutex_lock(&mutex);
    while (scopes > 0 && current != threads) pthread_cond_wait(&is_idle, &mutex);
    if (scopes++ == 0) {
        current = threads;
        others = openblas().get_threads();
        if (others != threads) openblas().set_threads(static_cast<int>(threads));
    }
    pthread_mutex_unlock(&mutex);
}

LapackThreads::~LapackThreads() {
    if (!is_open_ || --depth > 0) return;
    pthread_mutex_lock(&mutex);
    if (--scopes == 0) {
        if (others != current) openblas().set_threads(static_cast<int>(others));
        pthread_cond_broadcast(&is_idle);
    }
    pthread_mutex_unlock(&mutex);
}

}  // namespace bk::linalg

// SPDX-License-Identifier: Apache-2.0
// A forked child has none of its parent's OpenMP threads, but the runtime would wait for them in the next parallel
// region: such a thread runs its loops alone.
#include <pthread.h>

#include "core/abi/launch.h"

namespace bk {

namespace {

// Thread-local: has started threads; had started them when it forked.
thread_local bool has_started_threads = false, has_lost_threads = false;

void after_fork_in_child() { has_lost_threads = has_lost_threads || has_started_threads; }

bool watch_forks() {
    static const bool is_watching = pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;
    return is_watching;
}

}  // namespace

bool may_start_threads() { return !has_lost_threads && watch_forks(); }

void starts_threads() { has_started_threads = true; }

}  // namespace bk

// SPDX-License-Identifier: Apache-2.0
#include "core/vendor/vendor.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/vendor/call_guards.h"

namespace bk {

// A pooled library handle and the key it was last bound to. Entries leave the pool only at exit.
struct PooledHandle {
    struct Key {
        Vendor library;
        uint64_t context;
        cudaStream_t stream;
        const void* thread;  // set for a per-thread stream, else null

        bool operator==(const Key& other) const {
            return library == other.library && context == other.context && stream == other.stream && thread == other.thread;
        }
    };

    Key key;
    void* handle;
    int (*set_stream)(void*, cudaStream_t);
    int (*destroy)(void*);
    bool is_leased;
    uint64_t last_use;
    PooledHandle* next;
};

namespace {

using Key = PooledHandle::Key;

// --- Libraries -------------------------------------------------------------------------------------------------------

std::atomic<void*> opened[kVendorCount];

Status missing(const VendorEntry& entry, const char* reason) {
    if (reason[0] != 0)
        return fail(Status::kUnsupported, "%s cannot be loaded (%s); it is in the package %s (CUDA 13) or %s (CUDA 12)",
                    entry.name, reason, entry.package_13, entry.package_12);
    const bool two = entry.sonames[1] != nullptr;
    return fail(Status::kUnsupported, "%s is not found (%s%s%s): install the package %s (CUDA 13) or %s (CUDA 12)", entry.name,
                entry.sonames[0], two ? ", " : "", two ? entry.sonames[1] : "", entry.package_13, entry.package_12);
}

// Stores the loader's error in `reason`, unless the file does not exist.
void* try_open(const char* soname, char* reason, size_t size) {
    void* const library = dlopen(soname, RTLD_NOW);
    const char* const error = library == nullptr ? dlerror() : nullptr;
    const bool is_absent = error != nullptr && strncmp(error, soname, strlen(soname)) == 0 &&
                           strstr(error, "cannot open shared object file") != nullptr;
    if (error != nullptr && !is_absent && reason[0] == 0) snprintf(reason, size, "%s", error);
    return library;
}

// Threads that race here open the same file, which is never closed.
Status open_library(Vendor id, void** out) {
    const VendorEntry& entry = entry_of(id);
    std::atomic<void*>& known = opened[static_cast<size_t>(id)];
    void* library = is_loaded(id) ? known.load(std::memory_order_acquire) : nullptr;
    char reason[200] = "";
    for (const char* soname : entry.sonames)
        if (library == nullptr && soname != nullptr) library = try_open(soname, reason, sizeof(reason));
    if (library == nullptr) return missing(entry, reason);
    known.store(library, std::memory_order_release);
    *out = library;
    return Status::kOk;
}

// Text "13.1.0".
struct Version {
    char text[32] = "of unknown version";

    Version(const VendorEntry& entry, void* library) {
        void* const function = dlsym(library, entry.get_version);
        int version = 0;
        if (function != nullptr && entry.version_by_pointer)
            reinterpret_cast<int (*)(int*)>(function)(&version);
        else if (function != nullptr)
            version = static_cast<int>(reinterpret_cast<size_t (*)()>(function)());
        if (version > 0)
            snprintf(text, sizeof(text), "%d.%d.%d", version / entry.major_unit, version % entry.major_unit / 100,
                     version % 100);
    }
};

Status find_symbol(const VendorEntry& entry, void* library, const char* symbol, void** address) {
    *address = dlsym(library, symbol);
    if (*address != nullptr) return Status::kOk;
    return fail(Status::kUnsupported, "%s %s has no %s: install another version of the package %s (CUDA 13) or %s (CUDA 12)",
                entry.name, Version(entry, library).text, symbol, entry.package_13, entry.package_12);
}

// --- Contexts and streams --------------------------------------------------------------------------------------------

// Returns the context's id, unique in this process; 0 if the driver does not answer. The runtime, which has opened the
// driver, has no function for it, and querying the legacy stream's id breaks captures.
uint64_t current_context() {
    static std::atomic<void*> known{nullptr};
    void* function = known.load(std::memory_order_acquire);
    if (function == nullptr) {
        void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (driver != nullptr) function = dlsym(driver, "cuCtxGetId");
        if (function == nullptr) return 0;
        known.store(function, std::memory_order_release);
    }
    unsigned long long id = 0;
    return reinterpret_cast<int (*)(void*, unsigned long long*)>(function)(nullptr, &id) == 0 ? id : 0;
}

const void* this_thread() {
    static thread_local char mark;
    return &mark;
}

// --- Handles ---------------------------------------------------------------------------------------------------------

// The mutex guards the pool; it is never held during a call into NVIDIA's libraries.
std::mutex mutex;
PooledHandle* pool = nullptr;
std::atomic<bool> is_watched[kVendorCount];
uint64_t uses = 0;

void before_fork() { mutex.lock(); }
void after_fork_in_parent() { mutex.unlock(); }
void after_fork_in_child() {
    pool = nullptr;
    mutex.unlock();
}

// Returns an idle handle with this key, else, if no more may be created, the least recently used idle one of the same
// library and context, else null.
PooledHandle* acquire(const Key& key, bool is_capturing) {
    const std::lock_guard<std::mutex> guard(mutex);
    PooledHandle *matching = nullptr, *oldest = nullptr;
    int count = 0;
    for (PooledHandle* pooled = pool; pooled != nullptr; pooled = pooled->next) {
        if (pooled->key.library != key.library || pooled->key.context != key.context) continue;
        ++count;
        if (pooled->is_leased) continue;
        if (pooled->key == key) matching = pooled;
        if (oldest == nullptr || pooled->last_use < oldest->last_use) oldest = pooled;
    }
    PooledHandle* const found = matching != nullptr ? matching : is_capturing || count >= kMaxVendorHandles ? oldest : nullptr;
    if (found != nullptr) found->is_leased = true;
    return found;
}

void release(PooledHandle* pooled) {
    const std::lock_guard<std::mutex> guard(mutex);
    pooled->is_leased = false;
    pooled->last_use = ++uses;
}

// Each lease rebinds: the stream of the handle's last key may be destroyed, and another one have its address. Library
// and context do not change, since acquire() reads those of leased entries.
Status bind_stream(PooledHandle* pooled, const Key& key) {
    const int result = pooled->set_stream == nullptr ? 0 : pooled->set_stream(pooled->handle, key.stream);
    if (result != 0)
        return fail(Status::kInternal, "%s cannot use the stream: it answers %d", entry_of(key.library).name, result);
    pooled->key.stream = key.stream;
    pooled->key.thread = key.thread;
    return Status::kOk;
}

// Handles of other contexts, and those leased by running threads, are left to the driver.
void destroy_idle() {
    const uint64_t context = current_context();
    if (context == 0) return;
    PooledHandle* mine = nullptr;
    {
        const std::lock_guard<std::mutex> guard(mutex);
        for (PooledHandle** link = &pool; *link != nullptr;) {
            PooledHandle* const pooled = *link;
            if (pooled->key.context == context && !pooled->is_leased) {
                *link = pooled->next;
                pooled->next = mine;
                mine = pooled;
            } else {
                link = &pooled->next;
            }
        }
    }
    while (mine != nullptr) {
        PooledHandle* const pooled = mine;
        mine = pooled->next;
        if (pooled->destroy != nullptr) pooled->destroy(pooled->handle);
        delete pooled;
    }
}

// Registers again after the first handle of each library: exit handlers run in reverse, so this one runs before the
// destructors of every library that has handles by then.
void watch_exit(Vendor library) {
    if (!is_watched[static_cast<size_t>(library)].exchange(true)) atexit(destroy_idle);
}

bool watch_forks() {
    static const bool is_watching = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    return is_watching;
}

Status make_handle(const Key& key, PooledHandle* pooled) {
    const VendorEntry& entry = entry_of(key.library);
    void *library, *create, *set_stream = nullptr, *destroy = nullptr;
    BK_TRY(open_library(key.library, &library));
    BK_TRY(find_symbol(entry, library, entry.create, &create));
    if (entry.set_stream != nullptr) BK_TRY(find_symbol(entry, library, entry.set_stream, &set_stream));
    if (entry.destroy != nullptr) BK_TRY(find_symbol(entry, library, entry.destroy, &destroy));
    pooled->set_stream = reinterpret_cast<int (*)(void*, cudaStream_t)>(set_stream);
    pooled->destroy = reinterpret_cast<int (*)(void*)>(destroy);
    pooled->key = key;
    const int result = reinterpret_cast<int (*)(void**)>(create)(&pooled->handle);
    if (result != 0) return fail(Status::kInternal, "%s cannot make a handle: it answers %d", entry.name, result);
    const Status status = bind_stream(pooled, key);
    if (status != Status::kOk && pooled->destroy != nullptr) pooled->destroy(pooled->handle);
    return status;
}

Status add_handle(const Key& key, PooledHandle** out) {
    PooledHandle* const pooled = new (std::nothrow) PooledHandle{};
    if (pooled == nullptr || !watch_forks()) {
        delete pooled;
        return fail(Status::kInternal, "out of memory");
    }
    const RelaxedCapture relaxed;
    const Status status = make_handle(key, pooled);
    if (status != Status::kOk) {
        delete pooled;
        return status;
    }
    watch_exit(key.library);
    const std::lock_guard<std::mutex> guard(mutex);
    pooled->is_leased = true;
    pooled->next = pool;
    pool = pooled;
    *out = pooled;
    return Status::kOk;
}

}  // namespace

bool is_loaded(Vendor id) {
    std::atomic<void*>& known = opened[static_cast<size_t>(id)];
    void* library = known.load(std::memory_order_acquire);
    for (const char* soname : entry_of(id).sonames)
        if (library == nullptr && soname != nullptr) library = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) known.store(library, std::memory_order_release);
    return library != nullptr;
}

Status find_symbols(Vendor id, const char* const* symbols, size_t count, void** addresses) {
    void* library;
    BK_TRY(open_library(id, &library));
    for (size_t k = 0; k < count; ++k) BK_TRY(find_symbol(entry_of(id), library, symbols[k], &addresses[k]));
    return Status::kOk;
}

Status VendorHandle::lease_of(Vendor library, const Launch& launch) {
    if (pooled_ != nullptr) return fail(Status::kInternal, "a lease is for one handle");
    const cudaStream_t stream = stream_of(launch);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const bool clean = no_pending_error();
    BK_TRY(from_cuda(cudaStreamIsCapturing(stream, &capture), clean, "cudaStreamIsCapturing"));
    const bool is_capturing = capture != cudaStreamCaptureStatusNone;
    const Key key{library, current_context(), stream, stream == cudaStreamPerThread ? this_thread() : nullptr};
    if (key.context == 0) return fail(Status::kInternal, "the CUDA driver names no current context");
    PooledHandle* pooled = acquire(key, is_capturing);
    if (pooled == nullptr && is_capturing)
        return fail(Status::kUnsupported,
                    "the stream is being captured, and this context has no idle handle of %s: call the op once before the "
                    "capture",
                    entry_of(library).name);
    if (pooled == nullptr) {
        BK_TRY(add_handle(key, &pooled));
    } else {
        const Status status = bind_stream(pooled, key);
        if (status != Status::kOk) release(pooled);
        BK_TRY(status);
    }
    pooled_ = pooled;
    return Status::kOk;
}

VendorHandle::~VendorHandle() {
    if (pooled_ != nullptr) release(pooled_);
}

void* VendorHandle::get() const { return pooled_->handle; }

}  // namespace bk

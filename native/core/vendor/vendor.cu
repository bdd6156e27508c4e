#include "core/vendor/vendor.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/vendor/quiet.h"

namespace bk {

// A pooled library handle and the key it was last bound to. Entries leave the pool only at exit.
struct VendorSeat {
    struct Place {
        Vendor library;
        uint64_t context;
        cudaStream_t stream;
        const void* thread;  // set for a per-thread stream, else null

        bool operator==(const Place& other) const {
            return library == other.library && context == other.context && stream == other.stream && thread == other.thread;
        }
    };

    Place place;
    void* handle;
    int (*set_stream)(void*, cudaStream_t);
    int (*destroy)(void*);
    bool is_leased;
    uint64_t last_use;
    VendorSeat* next;
};

namespace {

using Place = VendorSeat::Place;

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
VendorSeat* seats = nullptr;
std::atomic<bool> is_watched[kVendorCount];
uint64_t uses = 0;

void before_fork() { mutex.lock(); }
void after_fork_in_parent() { mutex.unlock(); }
void after_fork_in_child() {
    seats = nullptr;
    mutex.unlock();
}

// Returns an idle handle with this key, else, if no more may be created, the least recently used idle one of the same
// library and context, else null.
VendorSeat* take(const Place& place, bool is_capturing) {
    const std::lock_guard<std::mutex> guard(mutex);
    VendorSeat *same = nullptr, *oldest = nullptr;
    int count = 0;
    for (VendorSeat* seat = seats; seat != nullptr; seat = seat->next) {
        if (seat->place.library != place.library || seat->place.context != place.context) continue;
        ++count;
        if (seat->is_leased) continue;
        if (seat->place == place) same = seat;
        if (oldest == nullptr || seat->last_use < oldest->last_use) oldest = seat;
    }
    VendorSeat* const chosen = same != nullptr ? same : is_capturing || count >= kMostVendorHandles ? oldest : nullptr;
    if (chosen != nullptr) chosen->is_leased = true;
    return chosen;
}

void give_back(VendorSeat* seat) {
    const std::lock_guard<std::mutex> guard(mutex);
    seat->is_leased = false;
    seat->last_use = ++uses;
}

// Each lease rebinds: the stream of the handle's last key may be destroyed, and another one have its address. Library
// and context do not change, since acquire() reads those of leased entries.
Status serve(VendorSeat* seat, const Place& place) {
    const int result = seat->set_stream == nullptr ? 0 : seat->set_stream(seat->handle, place.stream);
    if (result != 0)
        return fail(Status::kInternal, "%s cannot use the stream: it answers %d", entry_of(place.library).name, result);
    seat->place.stream = place.stream;
    seat->place.thread = place.thread;
    return Status::kOk;
}

// Handles of other contexts, and those leased by running threads, are left to the driver.
void destroy_idle() {
    const uint64_t context = current_context();
    if (context == 0) return;
    VendorSeat* mine = nullptr;
    {
        const std::lock_guard<std::mutex> guard(mutex);
        for (VendorSeat** link = &seats; *link != nullptr;) {
            VendorSeat* const seat = *link;
            if (seat->place.context == context && !seat->is_leased) {
                *link = seat->next;
                seat->next = mine;
                mine = seat;
            } else {
                link = &seat->next;
            }
        }
    }
    while (mine != nullptr) {
        VendorSeat* const seat = mine;
        mine = seat->next;
        if (seat->destroy != nullptr) seat->destroy(seat->handle);
        delete seat;
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

Status make_handle(const Place& place, VendorSeat* seat) {
    const VendorEntry& entry = entry_of(place.library);
    void *library, *create, *set_stream = nullptr, *destroy = nullptr;
    BK_TRY(open_library(place.library, &library));
    BK_TRY(find_symbol(entry, library, entry.create, &create));
    if (entry.set_stream != nullptr) BK_TRY(find_symbol(entry, library, entry.set_stream, &set_stream));
    if (entry.destroy != nullptr) BK_TRY(find_symbol(entry, library, entry.destroy, &destroy));
    seat->set_stream = reinterpret_cast<int (*)(void*, cudaStream_t)>(set_stream);
    seat->destroy = reinterpret_cast<int (*)(void*)>(destroy);
    seat->place = place;
    const int result = reinterpret_cast<int (*)(void**)>(create)(&seat->handle);
    if (result != 0) return fail(Status::kInternal, "%s cannot make a handle: it answers %d", entry.name, result);
    const Status status = serve(seat, place);
    if (status != Status::kOk && seat->destroy != nullptr) seat->destroy(seat->handle);
    return status;
}

Status add_seat(const Place& place, VendorSeat** out) {
    VendorSeat* const seat = new (std::nothrow) VendorSeat{};
    if (seat == nullptr || !watch_forks()) {
        delete seat;
        return fail(Status::kInternal, "out of memory");
    }
    const RelaxedCapture relaxed;
    const Status status = make_handle(place, seat);
    if (status != Status::kOk) {
        delete seat;
        return status;
    }
    watch_exit(place.library);
    const std::lock_guard<std::mutex> guard(mutex);
    seat->is_leased = true;
    seat->next = seats;
    seats = seat;
    *out = seat;
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
    if (seat_ != nullptr) return fail(Status::kInternal, "a lease is for one handle");
    const cudaStream_t stream = stream_of(launch);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const bool clean = no_pending_error();
    BK_TRY(from_cuda(cudaStreamIsCapturing(stream, &capture), clean, "cudaStreamIsCapturing"));
    const bool is_capturing = capture != cudaStreamCaptureStatusNone;
    const Place place{library, current_context(), stream, stream == cudaStreamPerThread ? this_thread() : nullptr};
    if (place.context == 0) return fail(Status::kInternal, "the CUDA driver names no current context");
    VendorSeat* seat = take(place, is_capturing);
    if (seat == nullptr && is_capturing)
        return fail(Status::kUnsupported,
                    "the stream is being captured, and this context has no idle handle of %s: call the op once before the "
                    "capture",
                    entry_of(library).name);
    if (seat == nullptr) {
        BK_TRY(add_seat(place, &seat));
    } else {
        const Status status = serve(seat, place);
        if (status != Status::kOk) give_back(seat);
        BK_TRY(status);
    }
    seat_ = seat;
    return Status::kOk;
}

VendorHandle::~VendorHandle() {
    if (seat_ != nullptr) give_back(seat_);
}

void* VendorHandle::get() const { return seat_->handle; }

}  // namespace bk

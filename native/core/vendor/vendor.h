// SPDX-License-Identifier: Apache-2.0
// Run-time loading of NVIDIA's libraries. Nothing links to them: each is opened by its soname at first use, so only the
// ops that need a missing one fail, with status 3 and a message that names the package. A library that the program has
// loaded already, as baracuda/_library/vendor.py does, is preferred to a newer one that is not loaded. A failed load is
// retried by the next call. The CPU library returns status 3.
//
// A library's functions form a struct of pointers, in the order of their symbols:
//
//   struct CublasLt {
//       cublasStatus_t (*matmul)(cublasLtHandle_t, ...);
//       static constexpr Vendor kLibrary = Vendor::kCublasLt;
//       static constexpr const char* kSymbols[] = {"cublasLtMatmul"};
//   };
//   const CublasLt* lt;
//   BK_TRY(vendor_functions(&lt));
//   VendorHandle handle;
//   BK_TRY(handle.lease<Vendor::kCublasLt>(launch));
//   lt->matmul(static_cast<cublasLtHandle_t>(handle.get()), ...);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "core/vendor/vendor_table.h"

namespace bk {

// Whether the library is open in this process, whoever opened it.
bool is_loaded(Vendor library);

// Looks up `count` symbols of a library, which is opened if need be.
Status find_symbols(Vendor library, const char* const* symbols, size_t count, void** addresses);

template <class Functions>
Status vendor_functions(const Functions** out) {
    constexpr size_t kCount = sizeof(Functions::kSymbols) / sizeof(Functions::kSymbols[0]);
    static_assert(sizeof(Functions) == kCount * sizeof(void*) && std::is_trivially_copyable<Functions>::value,
                  "a pointer for each symbol, and nothing else");
    static std::atomic<const Functions*> known{nullptr};
    const Functions* table = known.load(std::memory_order_acquire);
    if (table == nullptr) {
        void* addresses[kCount];
        BK_TRY(find_symbols(Functions::kLibrary, Functions::kSymbols, kCount, addresses));
        Functions* created = new (std::nothrow) Functions;
        if (created == nullptr) return fail(Status::kInternal, "out of memory");
        memcpy(static_cast<void*>(created), addresses, sizeof(addresses));
        if (known.compare_exchange_strong(table, created, std::memory_order_acq_rel))
            table = created;
        else  // another thread was faster
            delete created;
    }
    *out = table;
    return Status::kOk;
}

// Leases a library handle for the launch's stream in the current context to one thread, for the object's lifetime.
//
// Handles are pooled by stream and context, up to kMaxVendorHandles of a library in a context; then the least recently
// used one is rebound. A captured call must not create a handle: any idle one of the context serves, else the call
// returns status 3, and the op must run once before the capture. Handles are destroyed only at exit, since that breaks
// captures on other threads and captured work may need them; those of the current context are, if the driver still
// answers. A forked child neither uses nor destroys its parent's.
class VendorHandle {
public:
    VendorHandle() = default;
    VendorHandle(const VendorHandle&) = delete;
    VendorHandle& operator=(const VendorHandle&) = delete;
    ~VendorHandle();

    template <Vendor library>
    Status lease(const Launch& launch) {
        static_assert(entry_of(library).create != nullptr, "this library has no handles");
        return lease_of(library, launch);
    }
    void* get() const;

private:
    Status lease_of(Vendor library, const Launch& launch);

    struct PooledHandle* pooled_ = nullptr;
};

constexpr int kMaxVendorHandles = 32;

}  // namespace bk

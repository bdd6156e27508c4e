// The one door to NVIDIA's libraries. Nothing is linked to them: each is opened by its soname when an op first asks, so a
// missing one costs the ops that need it, with status 3 and a text that names the package. A program can load a library from
// anywhere beforehand, as baracuda/_vendor.py does; one that is loaded already is preferred to a newer one that is not. What
// failed is tried again by the next call. The CPU library answers status 3.
//
// Functions come in a struct of pointers, in the order of their symbols:
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

// Whether a library is open, by this library or by anyone in the process.
bool is_loaded(Vendor library);

// Addresses of `count` symbols of a library, which is opened if need be.
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
        Functions* made = new (std::nothrow) Functions;
        if (made == nullptr) return fail(Status::kInternal, "out of memory");
        memcpy(static_cast<void*>(made), addresses, sizeof(addresses));
        if (known.compare_exchange_strong(table, made, std::memory_order_acq_rel))
            table = made;
        else  // another thread was faster
            delete made;
    }
    *out = table;
    return Status::kOk;
}

// A handle of a library for the launch's stream in the current context, for one thread's use while the object lives.
//
// Each stream of a context gets handles of its own, which are kept, until there are kMostVendorHandles of a library in the
// context; then the one unused for longest serves another stream. In a captured call nothing may be made, so any idle handle
// of the context serves; where there is none, the call is status 3: call the op once before the capture. No handle is
// destroyed before the process exits, since that breaks captures on other threads, and captured work may need it. At exit those
// of the current context are, if the driver still answers. A forked child neither uses nor destroys its parent's.
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

    struct VendorSeat* seat_ = nullptr;
};

constexpr int kMostVendorHandles = 32;

}  // namespace bk

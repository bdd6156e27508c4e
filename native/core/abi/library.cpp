// SPDX-License-Identifier: Apache-2.0
// The library's own functions: build info, exported symbols, last error.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "baracuda_kernels.h"
#include "core/abi/status.h"
#include "core/platform.h"
#if BK_CUDA
#include "core/vendor/vendor_table.h"
#else
#include "core/abi/launch_cpu.h"
#endif

namespace {

constexpr size_t kTextSize = 512;
thread_local char last_error[kTextSize] = "";

constexpr const char* kSymbols[] = {
#include "symbols.inc"
};
constexpr int64_t kSymbolCount = static_cast<int64_t>(sizeof(kSymbols) / sizeof(kSymbols[0]));

#define BK_STRING_OF(x) #x
#define BK_STRING(x) BK_STRING_OF(x)
#if defined(__CUDACC__)
#define BK_COMPILER \
    "nvcc " BK_STRING(__CUDACC_VER_MAJOR__) "." BK_STRING(__CUDACC_VER_MINOR__) "." BK_STRING(__CUDACC_VER_BUILD__)
#elif defined(__clang__)
#define BK_COMPILER "clang " __clang_version__
#else
#define BK_COMPILER "g++ " __VERSION__
#endif

constexpr const char kBuildInfo[] = "{\"backend\": \"" BK_BACKEND "\", \"version\": \"" BK_VERSION
                                    "\", \"commit\": \"" BK_COMMIT "\", \"compiler\": \"" BK_COMPILER "\", \"archs\": "
#include "archs.inc"
#include "part.inc"
    ;  // run-time facts follow before the closing brace

struct Info {
    char text[sizeof(kBuildInfo) + 2048];
    size_t length = 0;

    Info() {
        add("%s", kBuildInfo);
#if BK_CUDA
        const char* separator = ", \"vendors\": {";
        for (const bk::VendorEntry& entry : bk::kVendors) {
            const bool two = entry.sonames[1] != nullptr;
            add("%s\"%s\": {\"name\": \"%s\", \"sonames\": [\"%s\"%s%s%s], \"packages\": [\"%s\", \"%s\"]}", separator,
                entry.key, entry.name, entry.sonames[0], two ? ", \"" : "", two ? entry.sonames[1] : "", two ? "\"" : "",
                entry.package_13, entry.package_12);
            separator = ", ";
        }
        add("}");
#elif BK_ISA_DISPATCH
        add(", \"isa\": \"%s\"", bk::kIsaNames[static_cast<int>(bk::isa())]);
#endif
        add("}");
    }

    __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
        va_list arguments;
        va_start(arguments, format);
        const int added = vsnprintf(text + length, sizeof(text) - length, format, arguments);
        va_end(arguments);
        length = length + added < sizeof(text) ? length + added : sizeof(text) - 1;
    }
};

}  // namespace

namespace bk {

Status fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, kTextSize, format, arguments);
    va_end(arguments);
    return status;
}

void name_failure(const char* op) {
    char text[kTextSize];
    memcpy(text, last_error, kTextSize);
    snprintf(last_error, kTextSize, "%s: %.*s", op, static_cast<int>(kTextSize - strlen(op) - 3), text);
}

}  // namespace bk

int32_t baracuda_kernels_abi_version(void) { return BARACUDA_ABI_VERSION; }

const char* baracuda_kernels_abi_hash(void) {
    return
#include "abi_hash.inc"
        ;
}

const char* baracuda_kernels_build_info(void) {
    static const Info info;
    return info.text;
}

const char* baracuda_kernels_status_name(int32_t status) {
    switch (status) {
        case BARACUDA_STATUS_OK: return "ok";
        case BARACUDA_STATUS_MISALIGNED: return "misaligned";
        case BARACUDA_STATUS_INVALID_PROBLEM: return "invalid problem";
        case BARACUDA_STATUS_UNSUPPORTED: return "unsupported";
        case BARACUDA_STATUS_WORKSPACE_TOO_SMALL: return "workspace too small";
        case BARACUDA_STATUS_INTERNAL: return "internal";
        default: return "unknown status";
    }
}

const char* baracuda_kernels_last_error(void) { return last_error; }

int64_t baracuda_kernels_symbol_count(void) { return kSymbolCount; }

const char* baracuda_kernels_symbol_name(int64_t index) {
    return index >= 0 && index < kSymbolCount ? kSymbols[index] : nullptr;
}

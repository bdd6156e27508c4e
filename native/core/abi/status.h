// SPDX-License-Identifier: Apache-2.0
// Status codes inside the library. A failing function sets the calling thread's error text and returns the code; the
// entry point prefixes the text with the op's name (entry.h).
#pragma once

#include <cstdint>

namespace bk {

enum class [[nodiscard]] Status : int32_t {
    kOk = 0,
    kMisaligned = 1,
    kInvalidProblem = 2,
    kUnsupported = 3,
    kWorkspaceTooSmall = 4,
    kInternal = 5,
};

// Sets the error text (printf format) and returns `status`.
__attribute__((format(printf, 2, 3))) Status fail(Status status, const char* format, ...);

// Prefixes the text of fail() with "<op>: ".
void name_failure(const char* op);

#define BK_TRY(expression)                                          \
    do {                                                            \
        const bk::Status bk_try_status = (expression);              \
        if (bk_try_status != bk::Status::kOk) return bk_try_status; \
    } while (0)

}  // namespace bk

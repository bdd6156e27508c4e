// Status codes inside the library. A function that fails leaves a text for the calling thread and returns the code; the
// entry point puts the op's name before the text (entry.h).
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

// Keeps the text and returns `status`. Formats as printf does.
__attribute__((format(printf, 2, 3))) Status fail(Status status, const char* format, ...);

// Puts "<op>: " before the text that fail() kept.
void name_failure(const char* op);

#define BK_TRY(expression)                                          \
    do {                                                            \
        const bk::Status bk_try_status = (expression);              \
        if (bk_try_status != bk::Status::kOk) return bk_try_status; \
    } while (0)

}  // namespace bk

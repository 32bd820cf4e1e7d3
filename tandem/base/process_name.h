// base/process_name.h: what messages call this process and its machine.
//
// Threads: any.
#pragma once
#include <string>

namespace tandem {

/// As the system has it; empty when it has none.
[[nodiscard]] std::string host_name();
/// "process 77 on gpu-a".
[[nodiscard]] std::string process_name();

}  // namespace tandem

// base/process_name.h: the names of this process and its machine in messages.
//
// Threads: all.
#pragma once
#include <string>

namespace tandem {

/// The host name that the system reports; empty when it reports none.
[[nodiscard]] std::string host_name();
/// Returns "process 77 on gpu-a".
[[nodiscard]] std::string process_name();

}  // namespace tandem

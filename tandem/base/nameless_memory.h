// base/nameless_memory.h: memory as a file that has no name anywhere, and is gone with its last descriptor and mapping.
//
// It is a memfd. Containers may forbid memfd_create() (seccomp); then it is an unlinked file in /dev/shm, which takes
// no seals, and whose size is bounded by that file system.
//
// Threads: all. Errors: RunError that names what the system refused.
#pragma once
#include "tandem/base/descriptor.h"

namespace tandem {

/// `name`: of the memory, as /proc shows it: "memfd:NAME".
[[nodiscard]] Descriptor nameless_memory(const char* name);

}  // namespace tandem

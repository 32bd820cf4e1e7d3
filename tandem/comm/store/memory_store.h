// comm/memory_store.h: the store of a run that is a single process, and of tests with ranks as threads.
#pragma once
#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// A store of its own. Its parts share the values with it, and any number of threads may use each.
[[nodiscard]] std::unique_ptr<Store> make_memory_store();

}  // namespace tandem::comm

// comm/links/c10d_store.h: a Store as c10d's backends want one, to exchange their addresses and ids. Internal.
//
// Threads: all. Blocking: get() and wait() until their timeout, which is that of c10d's store. Errors: those of Store;
// what no backend of this library calls says so.
#pragma once
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// All keys that the backend sets are in `part`, a part of the run's store for this backend alone.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> make_c10d_store(std::unique_ptr<Store> part);

}  // namespace tandem::comm

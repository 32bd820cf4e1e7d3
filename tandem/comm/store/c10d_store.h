// comm/store/c10d_store.h: gives the c10d store behind a Store, with which c10d's backends exchange addresses.
// Internal.
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tandem/comm/store/store.h"

namespace tandem::comm {

struct C10dStore {
  c10::intrusive_ptr<c10d::Store> store;  // has only the keys of this part
  std::string address;                    // the numeric address by which this process reaches the store's host
};

/// The store shares the connection with `store` and may outlive it. Throws ConfigError for a store that does not go
/// over TCP.
[[nodiscard]] C10dStore c10d_store_of(Store& store);

}  // namespace tandem::comm

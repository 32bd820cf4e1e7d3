// comm/c10d_store.h: what lies behind a store that goes over TCP, for the parts of c10d that need one. Internal.
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tandem/comm/store/store.h"

namespace tandem::comm {

struct C10dStore {
  c10::intrusive_ptr<c10d::Store> store;  // with the keys of this part alone
  std::string address;                    // of its host, as a number, seen from this process
};

/// Throws ConfigError for a store that does not go over TCP.
[[nodiscard]] C10dStore c10d_store_of(Store& store);

}  // namespace tandem::comm

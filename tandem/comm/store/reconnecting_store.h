// comm/reconnecting_store.h: a store that is asked through a new connection when the one it had is lost.
//
// A connection breaks for good by one answer that did not come (comm/store.h): the network was cut for some seconds, or
// the server's process was stopped. Who needs the store for as long as a run lasts asks it through this.
//
// Threads: single-thread. Blocking: a question that fails waits for one new connection, for as long as `connect` does,
// and is asked once more. Errors: RunError with what failed first and why there is no new connection; a later question
// tries again. A question whose answer was lost is asked twice: add() may count twice then, all else means the same.
#pragma once
#include <functional>
#include <memory>

#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// Connects at once, and throws what `connect` throws.
[[nodiscard]] std::unique_ptr<Store> make_reconnecting_store(std::function<std::unique_ptr<Store>()> connect);

}  // namespace tandem::comm

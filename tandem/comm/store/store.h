// comm/store/store.h: a small key-value map that all ranks of a run share, as c10d::Store: for addresses, counters, and
// which ranks are there. Values that are read from a store were written by other members of the run.
//
// Threads: any; calls on one connection run one at a time, so a thread that waits for long takes a connection of its
// own. Blocking: get() waits until `limits`; other calls wait as long as the store takes to answer. Errors: RunError,
// which names the store, when it is lost, and from then on for every call; DeadlineExceeded when a wait reaches its
// deadline and GroupAborted when it is stopped, after which the store can still be used.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/net/sockets.h"

namespace tandem::comm {

class Store {
 public:
  virtual ~Store() = default;

  /// Sets the value of `key`. The value is in the store when this returns.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until `key` is set, and returns its value.
  [[nodiscard]] virtual std::string get(const std::string& key, const Limits& limits) = 0;
  /// Returns the value of `key`, or nothing if it is not set now.
  [[nodiscard]] virtual std::optional<std::string> find(const std::string& key) = 0;
  /// Adds to a counter, which starts at zero, and returns the sum. get() and find() return a counter as decimal text.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Sets the value to `desired` (not empty) if it is `expected`, atomically. An empty `expected` means that the key is
  /// not set. Returns the value afterwards; empty if the key is not set.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;

  /// A view of this store in which all keys have `prefix`, as c10d::PrefixStore: keys of other parts are not visible.
  [[nodiscard]] virtual std::unique_ptr<Store> part(const std::string& prefix) = 0;
  /// The name of the store in messages: "the store at 10.0.0.1:29500".
  [[nodiscard]] virtual std::string name() const = 0;
  /// How the processes that share this store let each other in.
  [[nodiscard]] virtual net::Access access() const = 0;
};

/// All-gathers texts through the store: every rank gives one under `what` and gets those of all ranks, by rank. Each
/// `what` is used once. Waits for all ranks; DeadlineExceeded names those that are missing.
[[nodiscard]] std::vector<std::string> exchange(Store& store, const std::string& what, int rank, int size,
                                                const std::string& mine, const Limits& limits);

/// Makes a store within this process, for a run of a single process and for tests with ranks as threads. Its parts
/// share its values. Any number of threads may use it and its parts at the same time.
[[nodiscard]] std::unique_ptr<Store> make_memory_store();

/// Makes a store that connects anew when its connection is lost. One missing answer breaks a connection for good, for
/// example when the network is cut for some seconds or the server's process is stopped. Connects at once, and throws
/// what `connect` throws.
///
/// Threads: single-thread. Blocking: a call that fails waits for one new connection, as long as `connect` does, and is
/// repeated once. Errors: RunError with the first failure and the reason why there is no new connection; the next call
/// tries again. A call whose answer was lost runs twice: add() may count twice then; all other calls are idempotent.
[[nodiscard]] std::unique_ptr<Store> make_reconnecting_store(std::function<std::unique_ptr<Store>()> connect);

/// Returns a random text, to name something uniquely among all runs.
[[nodiscard]] std::string new_token();

}  // namespace tandem::comm

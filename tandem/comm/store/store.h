// comm/store.h: a small map that all ranks of a run share, for meeting each other: addresses, counts, who is there.
//
// Threads: all members from any thread, one at a time on a connection; a thread that waits for long takes a store of
// its own. Blocking: get() waits until `limits`; the rest as long as the store takes to answer.
// Errors: RunError that names the store when it is lost, and from then on for every call; DeadlineExceeded when a wait
// reaches its deadline, GroupAborted when it is stopped, and the store is as good as before.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/concurrency/limits.h"

namespace tandem::comm {

class Store {
 public:
  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value of `key`, once somebody has set it.
  [[nodiscard]] virtual std::string get(const std::string& key, const Limits& limits) = 0;
  /// The value now, if it is set.
  [[nodiscard]] virtual std::optional<std::string> find(const std::string& key) = 0;
  /// Adds to a counter, which starts at zero, and returns the sum. A counter's value reads as decimal text.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Makes it `desired` (not empty) if it is `expected`, in one step; an empty `expected` stands for not set. Returns
  /// what it is afterwards, which is empty if it is not set.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;

  /// The same store under keys of its own: what other parts set is not seen.
  [[nodiscard]] virtual std::unique_ptr<Store> part(const std::string& prefix) = 0;
  /// "the store at 10.0.0.1:29500", for messages.
  [[nodiscard]] virtual std::string name() const = 0;
};

/// Every rank gives a value under `what` and gets those of all, by rank. Once for each `what`. When ranks are missing
/// at the deadline, DeadlineExceeded names them.
[[nodiscard]] std::vector<std::string> exchange(Store& store, const std::string& what, int rank, int size,
                                                const std::string& mine, const Limits& limits);

/// A store within this process: of a run that is a single process, and of tests with ranks as threads. Its parts share
/// the values with it. Any number of threads may use it and each part.
[[nodiscard]] std::unique_ptr<Store> make_memory_store();

/// A store that is asked through a new connection when the one it had is lost: a connection breaks for good by one
/// answer that did not come, since the network was cut for some seconds or the server's process was stopped. Connects
/// at once, and throws what `connect` throws.
///
/// Threads: single-thread. Blocking: a question that fails waits for one new connection, for as long as `connect` does,
/// and is asked once more. Errors: RunError with what failed first and why there is no new connection; a later question
/// tries again. A question whose answer was lost is asked twice: add() may count twice then, all else means the same.
[[nodiscard]] std::unique_ptr<Store> make_reconnecting_store(std::function<std::unique_ptr<Store>()> connect);

/// A name for a meeting that no other one has.
[[nodiscard]] std::string new_token();

/// Blocks for `span`, or until the limits end it: between two looks at what cannot wake this thread, another process.
/// Threads: all.
void pause(Clock::duration span, const Limits& limits);

}  // namespace tandem::comm

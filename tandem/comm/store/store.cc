#include "tandem/comm/store/store.h"

#include <algorithm>
#include <map>
#include <random>
#include <type_traits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

// The key of one rank's value in exchange().
std::string key_of(const std::string& what, int rank) { return concat(what, "/", rank); }

// Returns "rank 3" or "ranks 1, 3": the ranks that have set nothing under `what`.
std::string missing_ranks(Store& store, const std::string& what, int size) {
  std::string ranks;
  int count = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (store.find(key_of(what, rank))) continue;
    ranks += concat(count++ == 0 ? "" : ", ", rank);
  }
  return concat(count == 1 ? "rank " : "ranks ", ranks);
}

// The map behind a memory store and all of its parts.
struct Values {
  Mutex mutex;
  CondVar changed;
  std::map<std::string, std::string> values TANDEM_GUARDED_BY(mutex);
};

// Prefixes are part of the keys, as in c10d::PrefixStore.
class MemoryStore final : public Store {
 public:
  MemoryStore(std::shared_ptr<Values> shared, std::string prefix)
      : shared_(std::move(shared)), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override {
    {
      const MutexLock lock(shared_->mutex);
      shared_->values[prefix_ + key] = value;
    }
    shared_->changed.notify_all();
  }

  std::string get(const std::string& key, const Limits& limits) override {
    const MutexLock lock(shared_->mutex);
    const bool is_set = shared_->changed.wait(
        shared_->mutex, limits.stop, limits.deadline,
        [&]() TANDEM_REQUIRES(shared_->mutex) { return shared_->values.contains(prefix_ + key); });
    if (is_set) return shared_->values.at(prefix_ + key);
    const std::string waited = concat(name(), ": nobody set '", key, "'");
    if (limits.stop.stop_requested()) throw GroupAborted(waited + " before the wait was stopped");
    throw DeadlineExceeded(waited + " before the deadline");
  }

  std::optional<std::string> find(const std::string& key) override {
    const MutexLock lock(shared_->mutex);
    const auto found = shared_->values.find(prefix_ + key);
    return found == shared_->values.end() ? std::nullopt : std::optional(found->second);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    std::int64_t sum = amount;
    {
      const MutexLock lock(shared_->mutex);
      std::string& value = shared_->values[prefix_ + key];
      if (!value.empty()) sum += std::stoll(value);
      value = std::to_string(sum);
    }
    shared_->changed.notify_all();
    return sum;
  }

  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    TANDEM_CHECK(!desired.empty() && desired != expected);
    std::string now;
    {
      const MutexLock lock(shared_->mutex);
      const auto found = shared_->values.find(prefix_ + key);
      now = found == shared_->values.end() ? "" : found->second;
      if (now == expected) now = shared_->values[prefix_ + key] = desired;  // a key that is not set counts as empty
    }
    shared_->changed.notify_all();
    return now;
  }

  std::unique_ptr<Store> part(const std::string& prefix) override {
    return std::make_unique<MemoryStore>(shared_, concat(prefix_, prefix, "/"));
  }
  [[nodiscard]] std::string name() const override { return "the store of this process"; }

 private:
  const std::shared_ptr<Values> shared_;
  const std::string prefix_;
};

// Every call goes through ask(), which repeats it once on a new connection when the old one is lost.
class ReconnectingStore final : public Store {
 public:
  explicit ReconnectingStore(std::function<std::unique_ptr<Store>()> connect)
      : connect_(std::move(connect)), store_(connect_()) {}

  void set(const std::string& key, const std::string& value) override {
    ask([&](Store& store) { store.set(key, value); });
  }
  std::string get(const std::string& key, const Limits& limits) override {
    return ask([&](Store& store) { return store.get(key, limits); });
  }
  std::optional<std::string> find(const std::string& key) override {
    return ask([&](Store& store) { return store.find(key); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return ask([&](Store& store) { return store.add(key, amount); });
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return ask([&](Store& store) { return store.compare_set(key, expected, desired); });
  }
  std::unique_ptr<Store> part(const std::string& prefix) override {
    return make_reconnecting_store([connect = connect_, prefix] { return connect()->part(prefix); });
  }
  [[nodiscard]] std::string name() const override { return store_->name(); }

 private:
  template <typename Question>
  std::invoke_result_t<Question, Store&> ask(const Question& question) {
    try {
      return question(*store_);
    } catch (const DeadlineExceeded&) {
      throw;  // get() has reached its deadline; the connection is good
    } catch (const GroupAborted&) {
      throw;
    } catch (const RunError& lost) {
      connect_anew(lost);
    }
    return question(*store_);
  }

  void connect_anew(const RunError& lost) {
    try {
      store_ = connect_();
    } catch (const RunError& error) {  // also a DeadlineExceeded becomes a RunError: no member of the run was missing
      throw RunError(concat(lost.what(), "; and there is no new connection: ", error.what()));
    }
  }

  const std::function<std::unique_ptr<Store>()> connect_;
  std::unique_ptr<Store> store_;
};

}  // namespace

// Reads the ranks' values one after the other, in the order of ranks. On a deadline it looks which keys are missing, so
// that the error names all ranks that did not come and not only the first.
std::vector<std::string> exchange(Store& store, const std::string& what, int rank, int size, const std::string& mine,
                                  const Limits& limits) {
  const Clock::time_point begin = Clock::now();
  store.set(key_of(what, rank), mine);
  std::vector<std::string> all;
  try {
    for (int other = 0; other < size; ++other) all.push_back(store.get(key_of(what, other), limits));
  } catch (const DeadlineExceeded&) {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    throw DeadlineExceeded(
        concat("rank ", rank, " waited ", waited.count(), " s for ", missing_ranks(store, what, size), " of ", size,
               " to bring '", what, "' to ", store.name(),
               "; likely they were not started, failed before, or cannot reach it: see their output"));
  }
  return all;
}

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(std::make_shared<Values>(), ""); }

std::unique_ptr<Store> make_reconnecting_store(std::function<std::unique_ptr<Store>()> connect) {
  return std::make_unique<ReconnectingStore>(std::move(connect));
}

std::string new_token() {
  std::random_device random;
  return concat(std::hex, random(), random());
}

// Nobody notifies `never`: the wait ends by the stop request or at the deadline.
void pause(Clock::duration span, const Limits& limits) {
  Mutex mutex;
  CondVar never;
  const MutexLock lock(mutex);
  const Deadline end = Deadline::after(std::min(span, limits.deadline.remaining()));
  (void)never.wait(mutex, limits.stop, end, [] { return false; });
}

}  // namespace tandem::comm

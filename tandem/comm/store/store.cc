#include "tandem/comm/store/store.h"

#include <type_traits>
#include <utility>

#include "tandem/base/digest/hmac.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

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
  [[nodiscard]] net::Access access() const override { return store_->access(); }

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

std::unique_ptr<Store> make_reconnecting_store(std::function<std::unique_ptr<Store>()> connect) {
  return std::make_unique<ReconnectingStore>(std::move(connect));
}

std::string new_token() { return random_hex(16); }

}  // namespace tandem::comm

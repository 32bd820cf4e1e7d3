#include "tandem/comm/store/reconnecting_store.h"

#include <type_traits>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

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
      throw;  // of a wait: the store is as good as before
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
    } catch (const RunError& error) {  // no DeadlineExceeded: nobody waited for a peer
      throw RunError(concat(lost.what(), "; and there is no new connection: ", error.what()));
    }
  }

  const std::function<std::unique_ptr<Store>()> connect_;
  std::unique_ptr<Store> store_;
};

}  // namespace

std::unique_ptr<Store> make_reconnecting_store(std::function<std::unique_ptr<Store>()> connect) {
  return std::make_unique<ReconnectingStore>(std::move(connect));
}

}  // namespace tandem::comm

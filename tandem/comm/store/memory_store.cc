#include "tandem/comm/store/memory_store.h"

#include <map>
#include <string>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

struct Values {
  Mutex mutex;
  CondVar changed;
  std::map<std::string, std::string> values TANDEM_GUARDED_BY(mutex);
};

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
      if (now == expected) now = shared_->values[prefix_ + key] = desired;
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

}  // namespace

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(std::make_shared<Values>(), ""); }

}  // namespace tandem::comm

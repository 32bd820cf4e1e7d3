#include "tandem/comm/links/c10d_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tandem::comm {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

class StoreForBackends final : public c10d::Store {
 public:
  explicit StoreForBackends(std::shared_ptr<comm::Store> values) : values_(std::move(values)) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<StoreForBackends>(values_); }

  void set(const std::string& key, const Bytes& value) override { values_->set(key, text_of(value)); }
  Bytes get(const std::string& key) override {
    const std::string value = values_->get(key, {.deadline = Deadline::after(timeout_), .stop = {}});
    return {value.begin(), value.end()};
  }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    const std::string now = values_->compare_set(key, text_of(expected), text_of(desired));
    return {now.begin(), now.end()};
  }
  int64_t add(const std::string& key, int64_t value) override { return values_->add(key, value); }
  bool check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [this](const std::string& key) { return values_->find(key).has_value(); });
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const Limits limits{.deadline = Deadline::after(timeout), .stop = {}};
    for (const std::string& key : keys) (void)values_->get(key, limits);
  }
  bool deleteKey(const std::string& /*key*/) override { return false; }  // none is ever used again
  int64_t getNumKeys() override { C10_THROW_ERROR(NotImplementedError, "tandem's store does not count its keys"); }

 private:
  const std::shared_ptr<comm::Store> values_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_c10d_store(std::unique_ptr<Store> part) {
  return c10::make_intrusive<StoreForBackends>(std::shared_ptr<Store>(std::move(part)));
}

}  // namespace tandem::comm

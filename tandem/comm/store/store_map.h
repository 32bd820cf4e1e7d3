// comm/store/store_map.h: the values of a store, in the process that hosts it.
//
// Bounds: of a key, a value and all of them together, so that no member fills the host's memory; RunError names the
// bound. Threads: all. Nothing blocks. Errors: RunError for add() to a value that is no number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tandem/base/mutex.h"

namespace tandem::comm {

class StoreMap {
 public:
  static constexpr std::size_t kMostKeyBytes = 4096, kMostValueBytes = std::size_t{16} << 20,
                               kMostBytes = std::size_t{512} << 20;

  // As the functions of Store with these names.
  void set(const std::string& key, const std::string& value);
  [[nodiscard]] std::optional<std::string> find(const std::string& key) const;
  std::int64_t add(const std::string& key, std::int64_t amount);
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);

 private:
  void put(const std::string& key, const std::string& value) TANDEM_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::string> values_ TANDEM_GUARDED_BY(mutex_);
  std::size_t bytes_ TANDEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::comm

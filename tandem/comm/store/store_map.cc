#include "tandem/comm/store/store_map.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {

void StoreMap::put(const std::string& key, const std::string& value) {
  if (key.empty() || key.size() > kMostKeyBytes)
    throw RunError(concat("a store's key has 1 to ", kMostKeyBytes, " bytes, not ", key.size()));
  if (value.size() > kMostValueBytes) {
    throw RunError(concat("a store's value has at most ", kMostValueBytes, " bytes, and that of '", key,
                          "' would have ", value.size()));
  }
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  const std::size_t all = bytes_ - before + key.size() + value.size();
  if (all > kMostBytes)
    throw RunError(concat("the values of a store would have ", all, " bytes with '", key, "', more than ", kMostBytes));
  values_[key] = value;
  bytes_ = all;
}

void StoreMap::set(const std::string& key, const std::string& value) {
  const MutexLock lock(mutex_);
  put(key, value);
}

std::optional<std::string> StoreMap::find(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t StoreMap::add(const std::string& key, std::int64_t amount) {
  const MutexLock lock(mutex_);
  const auto found = values_.find(key);
  const std::optional<std::int64_t> before =
      found == values_.end() ? std::optional<std::int64_t>(0) : parse_number<std::int64_t>(found->second);
  if (!before) throw RunError(concat("the value of '", key, "' is no number to add to: '", found->second, "'"));
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*before, amount, &sum))
    throw RunError(concat("the counter '", key, "' overflows: ", *before, " and ", amount));
  put(key, std::to_string(sum));
  return sum;
}

std::string StoreMap::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const MutexLock lock(mutex_);
  const auto found = values_.find(key);
  const std::string now = found == values_.end() ? "" : found->second;
  if (now != expected) return now;
  put(key, desired);
  return desired;
}

}  // namespace tandem::comm

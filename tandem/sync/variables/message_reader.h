// sync/message_reader.h: takes the pieces of a message about the shared variables off its front. Internal.
//
// Threads: caller-locks. Errors: RunError where bytes are missing or left over, as between ranks of different models.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "tandem/net/connection.h"

namespace tandem::sync {

class MessageReader {
 public:
  explicit MessageReader(net::Bytes bytes) : rest_(bytes) {}

  void read(void* into, std::size_t size);
  template <typename T>
  T read() {
    T value{};
    read(&value, sizeof(value));
    return value;
  }
  template <typename T>
  std::vector<T> read_many(std::size_t count) {
    std::vector<T> values(count);
    read(values.data(), count * sizeof(T));
    return values;
  }
  [[nodiscard]] at::Tensor read_tensor(at::IntArrayRef shape, at::ScalarType dtype);
  /// On any device.
  void read_into(const at::Tensor& tensor);
  /// Everything was read.
  void require_end() const;

 private:
  [[noreturn]] void fail() const;

  net::Bytes rest_;
};

}  // namespace tandem::sync

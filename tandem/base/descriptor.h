// base/descriptor.h: an open file, pipe or socket of the system, closed with its owner.
//
// Threads: single-thread.
#pragma once
#include <unistd.h>

#include <utility>

namespace tandem {

class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over `number`; a negative one is none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = other.release();
    }
    return *this;
  }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// Hands it over to the caller, who closes it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  void close() {
    if (is_open()) ::close(release());
  }

 private:
  int number_ = -1;
};

}  // namespace tandem

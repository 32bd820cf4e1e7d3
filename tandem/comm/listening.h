// comm/listening.h: the registration of a listener of a group (Group::on_close()). It ends with this object.
#pragma once
#include <functional>
#include <utility>

namespace tandem::comm {

/// Ownership: the group must outlive it.
/// Blocking: its end waits until none of the member's listeners is running. So a listener must neither end a Listening
/// of the same member nor register another listener there.
class [[nodiscard]] Listening {
 public:
  Listening() = default;  // of no listener
  /// `end` removes the listener.
  explicit Listening(std::function<void()> end) : end_(std::move(end)) {}
  ~Listening() { stop(); }
  Listening(Listening&& other) noexcept : end_(std::exchange(other.end_, {})) {}
  Listening& operator=(Listening&& other) noexcept {
    if (this == &other) return *this;
    stop();
    end_ = std::exchange(other.end_, {});
    return *this;
  }

 private:
  void stop() {
    if (const auto end = std::exchange(end_, {})) end();
  }

  std::function<void()> end_;
};

}  // namespace tandem::comm

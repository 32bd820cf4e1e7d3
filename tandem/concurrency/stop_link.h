// concurrency/stop_link.h: a stop source that is also stopped when another one is.
//
// Threads: all. The callback is unhooked when the link is destroyed.
#pragma once
#include <stop_token>

namespace tandem {

class StopLink {
 public:
  explicit StopLink(const std::stop_token& parent) : follow_(parent, Follow{&source_}) {}
  StopLink(const StopLink&) = delete;
  StopLink& operator=(const StopLink&) = delete;

  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
  void request_stop() { source_.request_stop(); }

 private:
  struct Follow {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };
  std::stop_source source_;
  std::stop_callback<Follow> follow_;
};

}  // namespace tandem

// base/testing/message_of.h: what an action says when it throws what a test expects of it.
#pragma once
#include <string>

namespace tandem {

/// what() of the Thrown that `action` throws; other exceptions pass.
template <typename Thrown, typename Action>
[[nodiscard]] std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace tandem

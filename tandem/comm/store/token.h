// comm/token.h: a name for a meeting that no other one has.
#pragma once
#include <random>
#include <string>

#include "tandem/base/text.h"

namespace tandem::comm {

[[nodiscard]] inline std::string new_token() {
  std::random_device random;
  return concat(std::hex, random(), random());
}

}  // namespace tandem::comm

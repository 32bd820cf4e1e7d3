#include "tandem/base/process_name.h"

#include <unistd.h>

#include <array>

#include "tandem/base/text.h"

namespace tandem {

std::string host_name() {
  std::array<char, 256> name{};  // Linux host names have up to 64 bytes; the last byte stays zero
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string process_name() { return concat("process ", ::getpid(), " on ", host_name()); }

}  // namespace tandem

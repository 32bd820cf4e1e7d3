#include "tandem/app/run/program_name.h"

#include <filesystem>

namespace tandem::app {
namespace {

std::string& name() {
  static std::string name = "tandem";
  return name;
}

}  // namespace

const std::string& program_name() { return name(); }

void set_program_name(const std::string& path) {
  const std::string last = std::filesystem::path(path).filename().string();
  name() = last.empty() ? "tandem" : last;
}

}  // namespace tandem::app

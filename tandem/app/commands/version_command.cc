// The facts that a report of a defect needs: versions, instructions, and what the build can exchange through.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <iostream>
#include <thread>

#include "tandem/app/commands/commands.h"
#include "tandem/base/cpu.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/base/version.h"
#include "tandem/comm/links/network_group.h"

namespace tandem::app {
namespace {

std::string compiler() {
#if defined(__clang__)
  return concat("clang ", __clang_version__);
#elif defined(__GNUC__)
  return concat("gcc ", __VERSION__);
#else
  return "unknown";
#endif
}

}  // namespace

ExitCode run_command(const VersionCommand& command) {
  const std::pair<const char*, std::string> parts[] = {
      {"tandem", kVersion},
      {"libtorch", TORCH_VERSION},
      {"compiler", compiler()},
      {"instructions", name_of(detect_instruction_set())},
      {"libtorch_instructions", at::get_cpu_capability()},
      {"nccl", comm::has_nccl() ? "yes" : "no"},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
  };
  if (command.output == Output::kText) {
    for (const auto& [name, value] : parts)
      std::cout << name << std::string(24 - std::string(name).size(), ' ') << value << "\n";
    return ExitCode::kDone;
  }
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : parts) json.key(name).value(value);
  std::cout << json.end_object().text() << "\n";
  return ExitCode::kDone;
}

}  // namespace tandem::app

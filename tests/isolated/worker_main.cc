// The test's program, which is also the worker: started again by a test, it serves environments, or lies.
#include <gmock/gmock.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>

#include "tandem/rl/env/isolated/bell.h"
#include "tandem/rl/env/isolated/env_region.h"
#include "tandem/rl/env/isolated/env_worker.h"

namespace {

using namespace tandem::rl;

// Answers everything by 1, and what `lie` is about by a lie.
void lie_about(const std::string& lie) {
  const EnvRegion region = EnvRegion::open(kWorkerMemory);
  RegionHeader& header = region.header();
  for (std::uint32_t request = 1;; ++request) {
    const BellWait wait{
        .number = header.request, .value = request, .own_sleeps = header.worker_sleeps, .socket = kWorkerSocket};
    if (wait.until(tandem::Deadline::infinite()) != BellOutcome::kRung) return;
    const auto command = static_cast<WorkerCommand>(header.command);
    header.outcome = 0;
    header.value = 1;
    const bool has_begun = command != WorkerCommand::kGive && command != WorkerCommand::kBegin;
    if (has_begun && lie == "asks") header.outcome = static_cast<std::uint32_t>(WorkerOutcome::kAsks);
    if (command == WorkerCommand::kReset && lie == "word") header.outcome = 77;
    if (command == WorkerCommand::kReset && lie == "refused")
      header.outcome = static_cast<std::uint32_t>(WorkerOutcome::kRefused);
    if (command == WorkerCommand::kReset && lie == "failures")
      header.outcome = static_cast<std::uint32_t>(WorkerOutcome::kAsks);
    if (command == WorkerCommand::kAnswer && lie == "failures")
      std::fill_n(region.array<std::uint64_t>(header.table.failures), header.table.environments, 5);
    if (command == WorkerCommand::kSave && lie == "unreadable")
      header.outcome = static_cast<std::uint32_t>(WorkerOutcome::kUnreadable);
    if (command == WorkerCommand::kReset && lie == "text") {
      header.outcome = static_cast<std::uint32_t>(WorkerOutcome::kFailed);
      header.value = std::uint64_t{1} << 60;
    }
    if (command == WorkerCommand::kSave) header.value = lie == "state" ? std::uint64_t{1} << 60 : 1000;
    if (command == WorkerCommand::kTake) header.value = lie == "piece" ? std::uint64_t{1} << 40 : lie == "byte" ? 1 : 0;
    ring(header.done, request, header.learner_sleeps, kWorkerSocket);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "env-worker") return serve_envs(EnvRegistry::native()), 0;
    if (command == "env-liar" && argc > 2) return lie_about(argv[2]), 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 3;
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

// app/commands/run_session.h: what `train` and `resume` share: the surroundings of a configuration, and a run from the
// open folder to the last line on the screen.
//
// Threads: the main one. What takes a Leader runs on rank 0; the other ranks take part through run_ranks.h.
#pragma once
#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "tandem/app/commands/run_ranks.h"
#include "tandem/app/config/configuration.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/base/cpu.h"
#include "tandem/base/error.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// This machine's devices, `environments` with the plugins that the options name, which outlive the result, how many
/// ranks share the work, and the most instructions that all of them have.
[[nodiscard]] Surroundings surroundings_of(const rl::EnvRegistry& environments, int ranks,
                                           InstructionSet instructions = detect_instruction_set());
/// Throws ConfigError when several ranks that one command line starts would share CUDA devices: they would take turns
/// on them, more slowly than one rank, and each with memory of its own.
void require_own_devices(const std::vector<c10::Device>& devices, int ranks);

/// Returns the newest checkpoint of a run that is to go on. Where there is none, notes that it starts from the
/// beginning. Throws ConfigError when the run has made more updates than total_steps asks for: steps are never taken
/// back.
[[nodiscard]] std::optional<model::Checkpoint> checkpoint_to_resume(const RunPaths& paths,
                                                                    Configuration& configuration);

/// Whether `checkpoint` is the end of the run: all steps are made, or eval.stop_at was reached, and summary.json tells
/// of it. Then says so, and how to go on with it; to the other ranks that there is nothing to do.
[[nodiscard]] bool leave_ended(const RunPaths& paths, const TrainOptions& options,
                               const std::optional<model::Checkpoint>& checkpoint, Leader& leader);

/// Ends the process of a run whose thread hangs, with its message and exit code: at once, without destructors, which
/// would wait for that thread.
[[noreturn]] void end_process(const HungThread& error);

/// Trains in `folder`, from `from` on where given, until the end or a signal, and says how it went. Rank 0's part; the
/// others follow. Nothing when the ranks are to meet anew.
/// Blocks for the whole training. Returns kDone when all steps are made and kStopped after a signal. Throws what
/// training throws, after logging it.
[[nodiscard]] std::optional<ExitCode> train_in(RunFolder& folder, const Configuration& configuration,
                                               const std::optional<model::Checkpoint>& from, Leader& leader);

}  // namespace tandem::app

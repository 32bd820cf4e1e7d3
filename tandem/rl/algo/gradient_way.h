// rl/algo/gradient_way.h: how the losses and gradients of a policy are computed; chosen once, before it learns.
#pragma once
#include <string>

#include "tandem/base/cpu.h"
#include "tandem/rl/algo/learning_options.h"
#include "tandem/rl/policy/kernels/compute.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// How one step's gradients come about. All of them compute the same loss: kFused and kOnePass have the numbers of the
/// others to rounding, kReplayed has the bits of kAutograd.
enum class GradientWay {
  kFused,     // by fused_block.h
  kReplayed,  // by tensor operations and autograd, recorded (learner/replayed_loss.h): on a CUDA device a graph
  kOnePass,   // the loss in one pass over the rows, the policy by tensor operations and autograd
  kAutograd,  // by tensor operations and autograd
};

/// Why a policy's passes cannot be recorded, in a clause; empty when they can: an MlpPolicy with features of floats, no
/// frozen parameter and actions whose entropy has a closed form, on a device of which work is recorded. Other policies
/// may wait for the device, or copy to it. Threads: all. Throws as device::why_not_recorded().
[[nodiscard]] std::string why_not_replayed(const ActorCritic& policy);

/// A policy and its loss, as choose_gradients() has to know them; each reason is a clause, or empty.
/// References the policy; it is asked once while the learner is built.
struct GradientQuestion {
  const ActorCritic& policy;
  LossKernel wanted = LossKernel::kAuto;
  const char* option = "kernel";  // where that was said, for messages
  // What products are to multiply: other than float32 by kernels alone, never by a fall-back.
  Compute compute = Compute::kFloat32;
  std::string no_kernels = {};  // why this loss has none
  std::string no_replay = {};   // why this loss, or its batches, cannot be recorded
  bool has_one_pass = false;    // whether the loss can be had in one pass over its rows
  InstructionSet set = InstructionSet::kPortable;
};

/// All replicas of a run must come to the same choice, or their bits would differ.
struct GradientChoice {
  GradientWay way = GradientWay::kAutograd;
  std::string sentence;  // for the log: see TrainingRun::gradients_by()
};

/// Throws ConfigError naming the reason when kRecorded is wanted and cannot be, or a Compute that the kernels alone
/// have and they do not serve; and as require_compute().
[[nodiscard]] GradientChoice choose_gradients(const GradientQuestion& question);

}  // namespace tandem::rl

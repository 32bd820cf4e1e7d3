#include "tandem/rl/algo/gradient_way.h"

#include <algorithm>
#include <functional>
#include <variant>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/device/recorded_work.h"
#include "tandem/rl/algo/fused_block.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

std::string first_reason(const std::string& one, const std::string& other) { return one.empty() ? other : one; }

// Choices of unequal sizes are padded by tables that the host makes anew each time.
bool has_equal_choices(const ActionSpace& space) {
  const auto* choices = std::get_if<MultiDiscrete>(&space);
  return choices == nullptr || std::ranges::adjacent_find(choices->n, std::not_equal_to()) == choices->n.end();
}

// Nobody who asked for bfloat16 is given something else.
void refuse_rounding(Compute compute, const std::string& why) {
  if (compute == Compute::kFloat32) return;
  throw ConfigError(concat("compute ", name_of(compute),
                           ": the fused kernels alone have it, and they do not serve this ", "run: ", why,
                           "; use float32"));
}

GradientChoice autograd(const std::string& why) {
  return {GradientWay::kAutograd,
          concat("Losses and gradients are computed by tensor operations and autograd, not by fused kernels: ", why)};
}

// The sentence names what is left to autograd, since a user who wonders about the speed of his policy reads it.
GradientChoice one_pass(const std::string& why) {
  return {
      GradientWay::kOnePass,
      concat("Losses and gradients are computed in one pass over the rows and, of the policy, by tensor operations ",
             "and autograd, not by fused kernels: ", why)};
}

GradientChoice replayed(bool on_cpu) {
  return {GradientWay::kReplayed,
          concat("Losses and gradients are computed by tensor operations and autograd, recorded ",
                 on_cpu ? "once and, on a CPU, done again each time" : "once as a CUDA graph")};
}

}  // namespace

std::string why_not_replayed(const ActorCritic& policy) {
  const auto* mlp = dynamic_cast<const MlpPolicy*>(&policy);
  if (mlp == nullptr) return "the policy is no MLP policy";
  if (mlp->has_torso()) return "the policy has a torso for images";
  const bool all_floats = std::ranges::all_of(policy.spec().observation,
                                              [](const Leaf& leaf) { return leaf.type == ElementType::kFloat32; });
  if (!all_floats) return "observations have integers";
  const bool has_entropy = policy.family() == ActionFamily::kCategorical ||
                           policy.family() == ActionFamily::kMultiCategorical ||
                           policy.family() == ActionFamily::kNormal;
  if (!has_entropy) return concat("the entropy of ", name_of(policy.family()), " actions is estimated");
  if (!has_equal_choices(policy.spec().action)) return "the choices of an action have different numbers of options";
  for (const auto& parameter : policy.named_parameters()) {
    if (!parameter.value().requires_grad()) return concat(parameter.key(), " is frozen");
  }
  return device::why_not_recorded(policy.parameters().front().device());
}

// `kAuto` prefers fused kernels, then, on a CUDA device, a recorded graph, on a CPU a loss in one pass, then autograd.
GradientChoice choose_gradients(const GradientQuestion& question) {
  const bool on_cpu = question.policy.parameters().front().is_cpu();
  const auto not_replayed = [&] { return first_reason(question.no_replay, why_not_replayed(question.policy)); };
  switch (question.wanted) {
    case LossKernel::kOff:
      refuse_rounding(question.compute, concat(question.option, " is off"));
      return autograd(concat(question.option, " is off"));
    case LossKernel::kRecorded:
      if (const std::string why = not_replayed(); !why.empty()) {
        throw ConfigError(concat(question.option, ": recorded was asked for, but losses and gradients of this policy ",
                                 "cannot be recorded: ", why, "; use auto or off"));
      }
      refuse_rounding(question.compute, concat(question.option, " is recorded"));
      return replayed(on_cpu);
    case LossKernel::kAuto:
      break;
  }
  const std::string not_fused = first_reason(question.no_kernels, why_not_fused(question.policy));
  if (not_fused.empty()) {
    if (dynamic_cast<const RecurrentActorCritic*>(&question.policy) != nullptr)
      refuse_rounding(question.compute, "those of policies that remember multiply float32 alone");
    require_compute(question.compute, question.set);
    const bool rounds = question.compute != Compute::kFloat32;
    return {GradientWay::kFused, concat("Losses and gradients are computed by fused kernels (", name_of(question.set),
                                        rounds ? concat(", products of ", name_of(question.compute)) : "", ")")};
  }
  refuse_rounding(question.compute, not_fused);
  if (on_cpu) {  // where nothing is won by recording
    const bool is_float = question.policy.parameters().front().scalar_type() == at::kFloat;
    return question.has_one_pass && is_float ? one_pass(not_fused) : autograd(not_fused);
  }
  if (const std::string why = not_replayed(); !why.empty())
    return autograd(concat(not_fused, "; nor as a CUDA graph: ", why));
  return replayed(on_cpu);
}

}  // namespace tandem::rl

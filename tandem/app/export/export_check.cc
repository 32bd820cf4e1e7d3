#include "tandem/app/export/export_check.h"

#include <ATen/ATen.h>
#include <torch/script.h>

#include <charconv>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/acting_net.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/export/portable_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::app {
namespace {

constexpr double kTolerance = 1e-5;

struct Expected {
  at::Tensor action;  // [rows, elements], within bounds
  at::Tensor logits;  // [rows, mask elements]; undefined for a Box
};

// One choice, or one element, is a column like others.
at::Tensor in_columns(const at::Tensor& action, std::int64_t rows) { return action.reshape({rows, -1}); }

// By the definition, whichever kernels act: forward() and the mode of the distribution.
Expected by_definition(const TrainedPolicy& trained, const RecordedRows& rows) {
  const at::NoGradGuard no_grad;
  rl::ActorCritic& policy = *trained.policy;
  auto* recurrent = dynamic_cast<rl::RecurrentActorCritic*>(&policy);
  const rl::PolicyOutput output =
      recurrent == nullptr
          ? policy.forward(rows.seen)
          : recurrent->forward_sequences({.observation = rows.seen, .state = rows.state, .start = {}}).output;
  at::Tensor action = policy.distribution(output, rows.mask)->mode().contiguous().clone();
  const auto* box = std::get_if<rl::Box>(&policy.spec().action);
  if (box == nullptr) return {.action = in_columns(action, rows.rows()), .logits = output.action_parameters[0]};
  rl::to_bounds(*box, action.const_data_ptr<float>(), rows.rows(), action.data_ptr<float>());
  return {.action = in_columns(action, rows.rows()), .logits = {}};
}

[[noreturn]] void fail(const std::filesystem::path& file, const RecordedRows& rows, std::int64_t row,
                       const at::Tensor& mine, const at::Tensor& theirs, const char* than) {
  const auto text = [](const at::Tensor& action) {
    std::string all;
    for (std::int64_t i = 0; i < action.numel(); ++i)
      all += concat(i > 0 ? ", " : "", formatted(action[i].item<double>(), std::chars_format::general, 9));
    return all;
  };
  throw RunError(concat(file.string(), ": of observation ", row, " of ", rows.rows(),
                        " the exported policy makes the action ", text(mine), ", and ", than, " ", text(theirs),
                        ". Do not use the file; please report this with the run's config.yaml"));
}

// Options that are as good as equal may change places.
bool is_as_good(const TrainedPolicy& trained, const Expected& expected, std::int64_t row, const at::Tensor& mine) {
  std::int64_t first = 0, choice = 0;
  for (const std::int64_t options : rl::choices_of(trained.policy->spec().action)) {
    const auto logit = [&](const at::Tensor& action) {
      return expected.logits[row][first + action[choice].item<std::int64_t>()].item<double>();
    };
    if (!(std::abs(logit(mine) - logit(expected.action[row])) <= kTolerance)) return false;
    first += options;
    ++choice;
  }
  return true;
}

// The worst row of real numbers is told; of choices only whether they differ.
std::string compare_near(const std::filesystem::path& file, const TrainedPolicy& trained, const RecordedRows& rows,
                         const at::Tensor& actions) {
  const Expected expected = by_definition(trained, rows);
  TANDEM_CHECK(actions.sizes() == expected.action.sizes(), "actions of ", actions.sizes());
  if (!expected.logits.defined()) {
    const at::Tensor off = (actions - expected.action).abs() / expected.action.abs().clamp_min(1);
    const at::Tensor worst = std::get<0>(off.max(1));
    const std::int64_t row = worst.argmax().item<std::int64_t>();
    if (!(worst[row].item<double>() <= kTolerance))
      fail(file, rows, row, actions[row], expected.action[row], "the trained policy");
    return concat("the actions of ", rows.rows(), " observations are the trained policy's, to ",
                  worst[row].item<float>());
  }
  std::int64_t as_good = 0;
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    if (actions[row].equal(expected.action[row])) continue;
    if (!is_as_good(trained, expected, row, actions[row]))
      fail(file, rows, row, actions[row], expected.action[row], "the trained policy");
    ++as_good;
  }
  return concat("the actions of ", rows.rows(), " observations are the trained policy's",
                as_good > 0 ? concat("; of ", as_good, " another one that is as good was chosen") : std::string());
}

// The header promises bits, so numbers are compared as they are.
std::string compare_bits(const std::filesystem::path& file, const TrainedPolicy& trained, const RecordedRows& rows,
                         const at::Tensor& actions) {
  rl::PortablePolicy portable({.policy = *trained.policy, .normalizers = &trained.normalizers});
  const at::Tensor state = acting_state(trained, rows.state);
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    std::vector<const std::byte*> leaves;
    for (const at::Tensor& leaf : rows.raw)
      leaves.push_back(static_cast<const std::byte*>(leaf.const_data_ptr()) +
                       static_cast<std::size_t>(row) * (leaf.nbytes() / static_cast<std::size_t>(rows.rows())));
    const rl::PortablePolicy::Decision decision = portable.act(
        {.leaves = leaves,
         .mask = rows.mask.defined() ? rows.mask.const_data_ptr<std::uint8_t>() + row * rows.mask.size(1) : nullptr,
         .state = state.defined() ? state.const_data_ptr<float>() + row * state.size(1) : nullptr});
    const at::Tensor its =
        decision.values.empty() ? at::tensor(decision.choices, at::kLong) : at::tensor(decision.values);
    if (!actions[row].equal(its))
      fail(file, rows, row, actions[row], its, "the trained policy by the portable kernels");
  }
  return concat("the actions of ", rows.rows(), " observations have the trained policy's bits");
}

}  // namespace

// A policy's state has the actor's memory first (recurrent_policy.h).
at::Tensor acting_state(const TrainedPolicy& trained, const at::Tensor& state) {
  if (!state.defined()) return state;
  const rl::ActingNet net = trained.policy->acting_net();
  return state.narrow(1, 0, net.cell()->state_size()).contiguous();
}

// Nothing is exported of policies that remember, so no state is asked for.
at::Tensor script_actions(const std::filesystem::path& file, const TrainedPolicy& trained, const RecordedRows& rows) {
  const at::NoGradGuard no_grad;
  torch::jit::Module script = torch::jit::load(file.string());
  std::vector<at::IValue> arguments;
  if (rows.raw.size() == 1) {
    arguments.emplace_back(rows.raw.front());
  } else {
    arguments.emplace_back(c10::List<at::Tensor>(rows.raw));
  }
  if (rl::mask_elements(trained.policy->spec().action) > 0)
    arguments.emplace_back(rows.mask.defined() ? at::IValue(rows.mask) : at::IValue());
  return in_columns(script.get_method("act")(arguments).toTensor(), rows.rows());
}

std::string check_export(const std::filesystem::path& file, const TrainedPolicy& trained, const RecordedRows& rows,
                         const CheckTools& tools) {
  const std::filesystem::path suffix = file.extension();
  if (suffix == ".h") return compare_bits(file, trained, rows, header_actions(file, trained, rows));
  if (suffix == ".onnx") return compare_near(file, trained, rows, onnx_actions(file, trained, rows, tools));
  return compare_near(file, trained, rows, script_actions(file, trained, rows));
}

}  // namespace tandem::app

// deployment_exports FOLDER: writes policies of every kind as .onnx and, without convolutions, as .h, each with 1,000
// observations and with what the policy makes of them: by its own forward() for ONNX, by the portable kernels for C++.
// deployment_parity.py runs the files and compares. Arrays are raw files; NAME.json lists them.
#include <ATen/ATen.h>
#include <torch/utils.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "tandem/base/atomic_file.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/sac/discrete_sac_policy.h"
#include "tandem/rl/algo/sac/sac_policy.h"
#include "tandem/rl/algo/td3/td3_policy.h"
#include "tandem/rl/policy/export/header_export.h"
#include "tandem/rl/policy/export/onnx_export.h"
#include "tandem/rl/policy/export/portable_policy.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace {

using namespace tandem::rl;
using tandem::concat;

constexpr std::int64_t kRows = 1000;

at::Generator seeded() { return at::make_generator<at::CPUGeneratorImpl>(5); }

void write_raw(const std::filesystem::path& path, const void* data, std::size_t bytes) {
  tandem::write_file(path, std::string_view(static_cast<const char*>(data), bytes));
}
void write_raw(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().contiguous();
  write_raw(path, whole.const_data_ptr(), whole.nbytes());
}

enum class Normalized { kNo, kYes };

struct Case {
  std::string name;
  // The environment's, with leaves of float64.
  Spec spec;
  std::shared_ptr<ActorCritic> policy;
  Normalized normalized = Normalized::kNo;
};

// What an environment of the spec may show. Numbers of float64 are too large for float32 to tell apart.
at::Tensor random_leaf(const Leaf& leaf) {
  const std::vector<std::int64_t> shape = with_rows({kRows}, leaf);
  switch (leaf.type) {
    case ElementType::kUInt8:
      return at::randint(256, shape, at::kByte);
    case ElementType::kInt64:
      return at::randint(static_cast<std::int64_t>(leaf.low[0]), static_cast<std::int64_t>(leaf.high[0]) + 1, shape,
                         at::kLong);
    case ElementType::kFloat64:
      return at::randn(shape, at::kDouble) * 3 + 1.7e9;
    default:
      return at::randn(shape) * 2 + 1;
  }
}

Normalizers normalizers_for(const Case& of, const Observation& raw) {
  const NormalizerOptions options{.observations = of.normalized == Normalized::kYes, .clip_observation = 2};
  Normalizers normalizers(of.spec, options);
  if (!options.observations) return normalizers;
  NormalizerMoments moments(of.spec, options);
  for (std::size_t l = 0; l < raw.size(); ++l) {
    for (std::int64_t row = 0; row < 200; ++row) {
      if (normalizers.is_wide(l)) {
        moments.observation[l].add(raw[l][row].contiguous().const_data_ptr<double>());
      } else {
        moments.observation[l].add(raw[l][row].contiguous().const_data_ptr<float>());
      }
    }
  }
  normalizers.merge(moments);
  normalizers.finish_merge();
  return normalizers;
}

// As the policy sees it in training.
Observation seen_of(const Normalizers& normalizers, const Observation& raw) {
  Observation seen = raw;
  for (std::size_t l = 0; l < raw.size(); ++l) {
    if (!raw[l].is_floating_point()) continue;
    seen[l] = at::empty(raw[l].sizes());
    if (!normalizers.options().observations) {
      seen[l].copy_(raw[l]);
    } else if (normalizers.is_wide(l)) {
      normalizers.normalize(l, raw[l].const_data_ptr<double>(), seen[l].data_ptr<float>(), kRows);
    } else {
      normalizers.normalize(l, raw[l].const_data_ptr<float>(), seen[l].data_ptr<float>(), kRows);
    }
  }
  return seen;
}

// At least one option of each choice is allowed.
at::Tensor random_mask(const ActionSpace& space) {
  std::vector<at::Tensor> parts;
  for (const std::int64_t options : choices_of(space)) {
    at::Tensor allowed = (at::rand({kRows, options}) < 0.6).to(at::kByte);
    allowed.scatter_(1, at::randint(options, {kRows, 1}, at::kLong), 1);
    parts.push_back(allowed);
  }
  return at::cat(parts, 1);
}

// By the policy's own forward(): what the ONNX has to give to 1e-5.
void write_definition(const std::filesystem::path& stem, const Case& of, const Observation& seen,
                      const at::Tensor& mask, const at::Tensor& state) {
  PolicyOutput output;
  if (auto* recurrent = dynamic_cast<RecurrentActorCritic*>(of.policy.get())) {
    const std::int64_t own = state.size(1), rest = recurrent->state_size() - own;
    SequenceOutput result = recurrent->forward_sequences(
        {.observation = seen, .state = at::cat({state, at::zeros({kRows, rest})}, 1), .start = {}});
    write_raw(concat(stem.string(), ".next_state.bin"), result.state.narrow(1, 0, own));
    output = std::move(result.output);
  } else {
    output = of.policy->forward(seen);
  }
  at::Tensor action = of.policy->distribution(output, mask)->mode().contiguous().clone();
  if (const auto* box = std::get_if<Box>(&of.spec.action))
    to_bounds(*box, action.const_data_ptr<float>(), kRows, action.data_ptr<float>());
  write_raw(concat(stem.string(), ".head.bin"), output.action_parameters[0]);
  write_raw(concat(stem.string(), ".action.bin"), action);
}

// By the portable kernels: what the header has to give to the bit.
void write_portable(const std::filesystem::path& stem, const ExportedPolicy& exported, const Observation& raw,
                    const at::Tensor& mask, const at::Tensor& state) {
  PortablePolicy portable(exported);
  std::string actions, states;
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<const std::byte*> leaves;
    std::vector<at::Tensor> rows;
    for (const at::Tensor& leaf : raw) {
      rows.push_back(leaf[row].contiguous());
      leaves.push_back(static_cast<const std::byte*>(rows.back().const_data_ptr()));
    }
    const at::Tensor own_mask = mask.defined() ? mask[row].contiguous() : mask;
    const at::Tensor own_state = state.defined() ? state[row].contiguous() : state;
    const PortablePolicy::Decision decision =
        portable.act({.leaves = leaves,
                      .mask = own_mask.defined() ? own_mask.const_data_ptr<std::uint8_t>() : nullptr,
                      .state = own_state.defined() ? own_state.const_data_ptr<float>() : nullptr});
    const auto append = [](std::string& to, const auto& numbers) {
      to.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]);
    };
    append(actions, decision.choices);
    append(actions, decision.values);
    append(states, decision.next_state);
  }
  tandem::write_file(concat(stem.string(), ".portable_action.bin"), actions);
  tandem::write_file(concat(stem.string(), ".portable_state.bin"), states);
}

std::string json_of(const Case& of, const Observation& raw, const at::Tensor& state, const char* header) {
  tandem::JsonWriter json;
  json.begin_object().key("inputs").begin_array();
  const std::vector<std::string> names = leaf_names(of.spec);
  for (std::size_t l = 0; l < raw.size(); ++l) {
    json.begin_object().key("name").value(names[l]).key("dtype").value(c10::toString(raw[l].scalar_type()));
    json.key("shape").begin_array();
    for (const std::int64_t size : raw[l].sizes()) json.value(size);
    json.end_array().end_object();
  }
  json.end_array().key("options").value(mask_elements(of.spec.action));
  json.key("has_mask").value(of.spec.has_action_mask);
  json.key("state").value(state.defined() ? state.size(1) : 0);
  json.key("elements").value(action_elements(of.spec.action));
  json.key("space").value(std::holds_alternative<Box>(of.spec.action)        ? "box"
                          : std::holds_alternative<Discrete>(of.spec.action) ? "discrete"
                                                                             : "multi");
  return json.key("header").value(std::string_view(header) == "yes").end_object().text();
}

void write(const std::filesystem::path& folder, const Case& of) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : of.policy->parameters()) parameter.add_(at::randn_like(parameter), 0.05);
  of.policy->eval();
  Observation raw;
  for (const Leaf& leaf : of.spec.observation) raw.push_back(random_leaf(leaf));
  const Normalizers normalizers = normalizers_for(of, raw);
  const at::Tensor mask = of.spec.has_action_mask ? random_mask(of.spec.action) : at::Tensor();
  const ActingNet net = of.policy->acting_net();
  const at::Tensor state = net.cell() != nullptr ? at::randn({kRows, net.cell()->state_size()}) * 0.5 : at::Tensor();
  const std::filesystem::path stem = folder / of.name;
  for (std::size_t l = 0; l < raw.size(); ++l) write_raw(concat(stem.string(), ".in_", l, ".bin"), raw[l]);
  if (mask.defined()) write_raw(concat(stem.string(), ".mask.bin"), mask);
  if (state.defined()) write_raw(concat(stem.string(), ".state.bin"), state);
  const ExportedPolicy exported{.policy = *of.policy, .normalizers = &normalizers, .facts = {{"algorithm", "test"}}};
  export_onnx(exported, stem.string() + ".onnx");
  write_definition(stem, of, seen_of(normalizers, raw), mask, state);
  const bool flat = !net.encoder().has_torso();
  if (flat) {
    export_header(exported, stem.string() + ".h");
    write_portable(stem, exported, raw, mask, state);
  }
  tandem::write_file(stem.string() + ".json", json_of(of, raw, state, flat ? "yes" : "no"));
}

Spec spec_of(ActionSpace action, std::vector<Leaf> leaves = {{.shape = {4}}}) {
  return {.id = "Test-v0", .observation = std::move(leaves), .action = std::move(action)};
}

Spec with_masks(Spec spec) {
  spec.has_action_mask = true;
  return spec;
}

std::vector<Case> mlp_cases() {
  const Box box{{-2, -1}, {1, 3}}, unbounded{{-1, -INFINITY}, {INFINITY, 0.25}};
  const auto mlp = [](const Spec& spec, MlpPolicyOptions options) {
    options.policy_gain = 2;
    return std::make_shared<MlpPolicy>(spec, options, seeded());
  };
  const std::vector<Leaf> mixed{
      {.name = "speed", .type = ElementType::kFloat32, .shape = {2}},
      {.name = "pixels", .type = ElementType::kUInt8, .shape = {2, 2}},
      {.name = "cards", .type = ElementType::kInt64, .shape = {3}, .low = {1, 1, 1}, .high = {4, 4, 4}},
      {.name = "class", .shape = {}}};
  const std::vector<Leaf> clocks{{.name = "clock", .type = ElementType::kFloat64, .shape = {2}},
                                 {.name = "x", .shape = {3}}};
  const Spec wide = spec_of(box, clocks), plain = spec_of(Discrete{3}),
             several = with_masks(spec_of(MultiDiscrete{{3, 2}}));
  return {
      {"categorical", plain, mlp(plain, {}), Normalized::kYes},
      {"multi", several, mlp(several, {.activation = Activation::kSilu})},
      {"normal", spec_of(box), mlp(spec_of(box), {.trunks = Trunks::kShared}), Normalized::kYes},
      {"unbounded", spec_of(unbounded), mlp(spec_of(unbounded), {.hidden = {}})},
      {"squashed", spec_of(box),
       mlp(spec_of(box), {.activation = Activation::kRelu, .family = ActionFamily::kSquashedNormal}), Normalized::kYes},
      {"noise", spec_of(box),
       mlp(spec_of(box), {.activation = Activation::kGelu, .family = ActionFamily::kStateDependentNoise})},
      {"mixed", spec_of(Discrete{3}, mixed),
       mlp(spec_of(Discrete{3}, mixed), {.hidden = {33}, .activation = Activation::kElu})},
      {"wide", wide, mlp(wide, {}), Normalized::kYes},
      {"narrowed", wide, mlp(wide, {}), Normalized::kNo}};
}

std::vector<Case> recurrent_cases() {
  const Box box{{-2, -1}, {1, 3}};
  const auto recurrent = [](const Spec& spec, RecurrentPolicyOptions options) {
    options.mlp.policy_gain = 2;
    return std::make_shared<RecurrentPolicy>(spec, options, seeded());
  };
  const Spec choice = with_masks(spec_of(Discrete{5})), arm = spec_of(box);
  return {
      {"lstm", choice, recurrent(choice, {.mlp = {.hidden = {32}}}), Normalized::kYes},
      {"gru", arm, recurrent(arm, {.mlp = {.hidden = {}}, .cell = CellKind::kGru, .size = 20}), Normalized::kYes},
      {"lstm_noise", arm,
       recurrent(arm, {.mlp = {.trunks = Trunks::kShared, .family = ActionFamily::kStateDependentNoise}, .size = 17})}};
}

std::vector<Case> replay_cases() {
  const Spec choice = with_masks(spec_of(Discrete{4})), arm = spec_of(Box{{-2, -1, 0}, {1, 3, 1}});
  const NetworkOptions networks{.hidden = {48, 40}};
  const auto dqn = [&](const DqnOptions& options) {
    return std::make_shared<DqnPolicy>(choice, networks, options, seeded());
  };
  DqnOptions dueling, categorical, quantiles, noisy;
  dueling.streams = DqnStreams::kDueling;
  categorical.streams = DqnStreams::kDueling;
  categorical.returns = DqnReturn::kCategorical;
  quantiles.returns = DqnReturn::kQuantiles;
  noisy.exploration = DqnExploration::kNoisy;
  return {{"dqn", choice, dqn({})},
          {"dqn_dueling", choice, dqn(dueling), Normalized::kYes},
          {"dqn_categorical", choice, dqn(categorical)},
          {"dqn_quantiles", choice, dqn(quantiles)},
          {"dqn_noisy", choice, dqn(noisy)},
          {"sac", arm, std::make_shared<SacPolicy>(arm, networks, 2, 1.0, seeded()), Normalized::kYes},
          {"sac_discrete", choice, std::make_shared<DiscreteSacPolicy>(choice, networks, 2, 1.0, seeded())},
          {"td3", arm, std::make_shared<Td3Policy>(arm, networks, 2, 0.1, seeded())}};
}

std::vector<Case> image_cases() {
  const auto seeing = [](std::int64_t side) {
    return spec_of(Discrete{3}, {{.name = "eye", .type = ElementType::kUInt8, .shape = {3, side, side}},
                                 {.name = "speed", .shape = {2}}});
  };
  const Spec large = seeing(36), small = seeing(11);
  return {{"nature_cnn", large,
           std::make_shared<MlpPolicy>(large, MlpPolicyOptions{.hidden = {32}, .policy_gain = 2}, seeded())},
          {"residual", small,
           std::make_shared<MlpPolicy>(
               small, MlpPolicyOptions{.hidden = {32}, .policy_gain = 2, .torso = {.channels = {8, 8}, .blocks = 1}},
               seeded())},
          {"lstm_nature_cnn", large,
           std::make_shared<RecurrentPolicy>(
               large, RecurrentPolicyOptions{.mlp = {.hidden = {32}, .policy_gain = 2}, .size = 16}, seeded())}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: deployment_exports FOLDER\n");
    return 2;
  }
  torch::manual_seed(3);
  at::set_num_threads(1);
  for (const auto& cases : {mlp_cases(), recurrent_cases(), replay_cases(), image_cases()}) {
    for (const Case& each : cases) write(argv[1], each);
  }
  return 0;
}

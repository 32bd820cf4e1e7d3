#include "tandem/rl/policy/export/portable_policy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/model/distribution/row_sampling.h"
#include "tandem/rl/policy/kernels/sequences/cell_kernels.h"
#include "tandem/rl/policy/kernels/sequences/recurrent_inference.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

constexpr InstructionSet kSet = InstructionSet::kPortable;
constexpr std::size_t kNoLayer = ~std::size_t{0};

PackedLayer packed(const at::Tensor& weight, const at::Tensor& bias, std::int64_t groups = 1) {
  const std::int64_t size = weight.size(0) / groups;
  PackedLayer layer(weight.size(1), groups == 1 ? size : groups * padded(size));
  pack_groups(weight.detach(), bias.detach(), groups, layer);
  return layer;
}

}  // namespace

// Memory is taken here for every value, padded as the kernels write it.
PortablePolicy::PortablePolicy(const ExportedPolicy& exported)
    : exported_(exported), net_(exported.policy.acting_net()) {
  if (net_.encoder().has_torso()) throw ConfigError("the portable kernels of an exported policy have no convolutions");
  values_.emplace_back(padded(net_.size(0)));
  for (std::size_t i = 0; i < net_.steps().size(); ++i) {
    const ActingStep& step = net_.steps()[i];
    values_.emplace_back(padded(net_.size(i + 1)));
    layer_of_.push_back(step.weight.defined() ? layers_.size() : kNoLayer);
    if (step.weight.defined()) layers_.push_back(packed(step.weight, step.bias));
    if (step.cell == nullptr) continue;
    const RecurrentCell& cell = *step.cell;
    cell_.push_back(packed(cell.weight_ih(), cell.bias_ih(), cell.gates()));
    cell_.push_back(packed(cell.weight_hh(), cell.bias_hh(), cell.gates()));
  }
}

std::int64_t PortablePolicy::state_size() const { return net_.cell() == nullptr ? 0 : net_.cell()->state_size(); }

// Floats are normalised, or narrowed, and then encoded like the others.
void PortablePolicy::encode(std::span<const std::byte* const> leaves) {
  const FlatFeatures& flat = net_.encoder().flat();
  std::vector<const std::byte*> seen(leaves.begin(), leaves.end());
  std::vector<std::vector<float>> own(leaves.size());
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const FlatFeatures::Part& part = flat.parts()[l];
    if (part.leaf.type != ElementType::kFloat32 || (!exported_.is_normalized() && !exported_.is_wide(l))) continue;
    own[l].resize(static_cast<std::size_t>(part.count));
    const auto* floats = reinterpret_cast<const float*>(leaves[l]);
    const auto* doubles = reinterpret_cast<const double*>(leaves[l]);
    if (!exported_.is_normalized()) {
      std::transform(doubles, doubles + part.count, own[l].begin(), [](double x) { return static_cast<float>(x); });
    } else if (exported_.is_wide(l)) {
      exported_.normalizers->normalize(l, doubles, own[l].data(), 1);
    } else {
      exported_.normalizers->normalize(l, floats, own[l].data(), 1);
    }
    seen[l] = reinterpret_cast<const std::byte*>(own[l].data());
  }
  flat.encode_rows(seen, 1, values_[0].data());
}

// The kernels go along padded units; the state of a decision has none of the padding. `keep` is 1: episodes begin with
// states of the caller's.
void PortablePolicy::remember(const RecurrentCell& cell, const float* x, float* output, Decision& decision) {
  const std::int64_t size = cell.size(), units = padded(size), gates = cell.gates() * units;
  const bool is_lstm = cell.kind() == CellKind::kLstm;
  AlignedFloats of_input(gates), of_output(gates), before(units), memory(units), squashed(units), after(units);
  std::copy_n(decision.next_state.data(), size, before.data());
  if (is_lstm) std::copy_n(decision.next_state.data() + size, size, memory.data());
  mlp_kernels(kSet).dense(x, cell_[0].inputs, 1, cell_[0], of_input.data());
  mlp_kernels(kSet).dense(before.data(), units, 1, cell_[1], of_output.data());
  const float keep = 1;
  const CellKernels<float>& kernels = cell_kernels<float>(kSet);
  (is_lstm ? kernels.lstm : kernels.gru)({.rows = 1,
                                          .size = units,
                                          .gates_stride = gates,
                                          .stride = units,
                                          .of_input = of_input.data(),
                                          .of_output = of_output.data(),
                                          .output_before = before.data(),
                                          .memory_before = memory.data(),
                                          .output = after.data(),
                                          .tanh_memory = squashed.data(),
                                          .next_output = after.data(),
                                          .next_memory = memory.data(),
                                          .keep = &keep});
  std::copy_n(after.data(), units, output);
  std::copy_n(after.data(), size, decision.next_state.data());
  if (is_lstm) std::copy_n(memory.data(), size, decision.next_state.data() + size);
}

// The loops are those of PPO's choices along the samples of a block, which are the actions here; none is taken.
void PortablePolicy::expect(const ActingStep& step, const float* logits, float* means) const {
  const std::int64_t numbers = step.support.numel();
  const float* support = step.support.const_data_ptr<float>();
  const BlockKernels<float>& kernels = block_kernels<float>(kSet);
  AlignedFloats block(numbers * kBlock), taken(kBlock), log_prob(kBlock), entropy(kBlock), minus_one(kBlock),
      zero(kBlock);
  std::fill_n(taken.data(), kBlock, -1.0F);
  std::fill_n(minus_one.data(), kBlock, -1.0F);
  for (std::int64_t action = 0; action < step.count; ++action) {
    for (std::int64_t n = 0; n < numbers; ++n)
      std::fill_n(block.data() + n * kBlock, kPanel, logits[action * numbers + n]);
    const ChoiceBlock<float> choice{.options = numbers,
                                    .samples = kPanel,
                                    .logits = block.data(),
                                    .allowed = nullptr,
                                    .taken = taken.data(),
                                    .log_prob = log_prob.data(),
                                    .entropy = entropy.data()};
    kernels.choose(choice);
    kernels.choose_back(choice, minus_one.data(), zero.data());
    float mean = 0;
    for (std::int64_t n = 0; n < numbers; ++n) mean += block.data()[n * kBlock] * support[n];
    means[action] = mean;
  }
}

// The loops that are no kernels are those of NetworkActor and ReturnPasses, in their order of sums.
void PortablePolicy::run(std::size_t index, Decision& decision) {
  using Kind = ActingStep::Kind;
  const ActingStep& step = net_.steps()[index];
  const float* const in = values_[step.in].data();
  float* const out = values_[index + 1].data();
  const std::int64_t size = net_.size(index + 1), of_in = net_.size(step.in);
  switch (step.kind) {
    case Kind::kLinear:
      return mlp_kernels(kSet).dense(in, of_in, 1, layers_[layer_of_[index]], out);
    case Kind::kActivate:
      return mlp_kernels(kSet).activate(step.activation, in, out, padded(size));
    case Kind::kRemember:
      return remember(*step.cell, in, out, decision);
    case Kind::kTakeFirst:
      std::copy_n(in, size, out);
      return;
    case Kind::kSquash:
      std::transform(in, in + size, out, [](float x) { return std::tanh(x); });
      return;
    case Kind::kDuel: {
      const float* const advantage = values_[step.also].data();
      const auto scale = 1.0F / static_cast<float>(step.count);
      for (std::int64_t n = 0; n < of_in; ++n) {
        float sum = 0;
        for (std::int64_t a = 0; a < step.count; ++a) sum += advantage[a * of_in + n];
        for (std::int64_t a = 0; a < step.count; ++a)
          out[a * of_in + n] = in[n] + advantage[a * of_in + n] - sum * scale;
      }
      return;
    }
    case Kind::kExpect:
      return expect(step, in, out);
    case Kind::kAverage: {
      const std::int64_t numbers = of_in / step.count;
      for (std::int64_t a = 0; a < step.count; ++a) {
        float sum = 0;
        for (std::int64_t n = 0; n < numbers; ++n) sum += in[a * numbers + n];
        out[a] = sum / static_cast<float>(numbers);
      }
      return;
    }
  }
}

// The modes are those of ActionSampler, whose log-probabilities are of no use here: the deviation is 1.
PortablePolicy::Decision PortablePolicy::act(const Row& row) {
  Decision decision;
  if (state_size() > 0) decision.next_state.assign(row.state, row.state + state_size());
  encode(row.leaves);
  for (std::size_t i = 0; i < net_.steps().size(); ++i) run(i, decision);
  const auto head = static_cast<std::size_t>(net_.size(net_.last()));
  decision.head.assign(values_.back().data(), values_.back().data() + head);
  const ActionSpace& space = exported_.policy.spec().action;
  float log_prob = 0;
  const auto* box = std::get_if<Box>(&space);
  if (box == nullptr) {
    const std::vector<std::int64_t> options = choices_of(space);
    decision.choices.resize(options.size());
    model::sample_categorical({.logits = decision.head.data(), .mask = row.mask, .rows = 1, .nvec = options}, nullptr,
                              decision.choices.data(), &log_prob);
    return decision;
  }
  decision.values.resize(head);
  const std::vector<float> log_std(head, 0.0F);
  auto* mode =
      exported_.policy.family() == ActionFamily::kSquashedNormal ? model::sample_squashed_normal : model::sample_normal;
  mode({.mean = decision.head.data(), .log_std = log_std.data(), .rows = 1, .size = static_cast<std::int64_t>(head)},
       nullptr, decision.values.data(), &log_prob);
  to_bounds(*box, decision.values.data(), 1, decision.values.data());
  return decision;
}

}  // namespace tandem::rl

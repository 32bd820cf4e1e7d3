#include "tandem/sync/replica.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <sstream>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/device/vector_math.h"
#include "tandem/model/shard_random.h"

namespace tandem::sync {

namespace {

// Divides the shards of a process among its devices. `common`: the fields that are equal for all its replicas, the
// number of its first replica, and in `mine` all shards of the process.
std::vector<Placement> place(const std::vector<c10::Device>& devices, const Placement& common) {
  std::vector<Placement> placements;
  const auto local = static_cast<int>(devices.size());
  for (int index = 0; index < local; ++index) {
    Placement& placement = placements.emplace_back(common);
    placement.replica += index;
    placement.mine = subtree_of(common.mine, local, index);
    placement.device = devices[static_cast<std::size_t>(index)];
    placement.local = index;
  }
  return placements;
}

// The shards that fall to this rank; none when there are fewer shards than ranks, which place_replicas() then reports.
Range shards_of_rank(const comm::Group& ranks, int shards) {
  try {
    return ranks.subtree({0, shards});
  } catch (const ConfigError&) {
    return {0, 0};
  }
}

constexpr const char* kParameter = "parameter ";
using Lines = std::vector<std::string>;

std::size_t parameters_of(const Lines& lines) {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with(kParameter); }));
}

// A line for each parameter and each tensor of the replica's state, in order. Replicas hold the same model when these
// texts are equal, and the first line that differs tells the user why they do not.
std::string describe(Replica& replica) {
  std::string text;
  for (const model::FlatBuffer& buffer : replica.parameters().buffers()) {
    for (const model::ParameterSlot& slot : buffer.slots) {
      text += concat(kParameter, slot.name, " ", c10::toString(buffer.values.scalar_type()), " ",
                     c10::IntArrayRef(slot.shape), buffer.sparse ? " sparse" : "", "\n");
    }
  }
  for (const auto& [name, tensor] : replica.state()) {
    text += concat("state ", name, " ", c10::toString(tensor.scalar_type()), " ", tensor.sizes(), "\n");
  }
  return text;
}

// Throws for the first replica that differs from replica 0, showing the first line that differs for all of them. Where
// another has more parameters, a replica's line behind its last one shows nothing.
void compare(const std::vector<Lines>& all) {
  const Lines& first = all.front();
  const auto other = std::ranges::find_if(all, [&](const Lines& lines) { return lines != first; });
  if (other == all.end()) return;
  const auto number = static_cast<std::size_t>(std::ranges::mismatch(first, *other).in1 - first.begin());
  const std::size_t most_parameters = parameters_of(*std::ranges::max_element(all, {}, parameters_of));
  std::string message = "the replicas do not hold the same model; their parameters, and the first difference:";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t parameters = parameters_of(all[i]);
    const bool is_missing = number >= all[i].size() || (number >= parameters && number < most_parameters);
    message += concat("\n    replica ", i, " has ", parameters, " parameters; ",
                      is_missing ? "no further one" : all[i][number]);
  }
  throw ConfigError(message + "\n  Build every replica's model with the same options.");
}

// Two 64-bit sums of 64-bit words that no exchange or change of a few of them leaves alike.
struct Digest {
  std::uint64_t low, high;
  void mix(std::uint64_t word) {
    low = (low ^ word) * 0x9E3779B97F4A7C15U;
    low ^= low >> 32;
    high = std::rotl(high + word, 29) * 0xC2B2AE3D27D4EB4FU;
  }
};

std::uint64_t word_at(const std::byte* at, std::size_t size = sizeof(std::uint64_t)) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, size);
  return word;
}

// 128 bits of a tensor's bytes. Against accidents, not against malice. Words go to several digests in turn, so that
// one's multiplications need not wait for the other's.
void append_digest(const at::Tensor& tensor, std::vector<std::int64_t>& digests) {
  constexpr std::size_t kLanes = 4, kWord = sizeof(std::uint64_t);
  const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
  const auto* at = static_cast<const std::byte*>(bytes.const_data_ptr());
  const std::size_t size = bytes.nbytes();
  std::array<Digest, kLanes> lanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = {.low = size + lane, .high = ~size};
  std::size_t i = 0;
  for (; i + kLanes * kWord <= size; i += kLanes * kWord) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane].mix(word_at(at + i + lane * kWord));
  }
  for (std::size_t lane = 0; i < size; i += kWord, ++lane) lanes[lane].mix(word_at(at + i, std::min(kWord, size - i)));
  Digest& whole = lanes.front();
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    whole.mix(lanes[lane].low);
    whole.mix(lanes[lane].high);
  }
  digests.push_back(static_cast<std::int64_t>(whole.low));
  digests.push_back(static_cast<std::int64_t>(whole.high));
}

}  // namespace

std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards) {
  return place(devices, {.replicas = static_cast<int>(devices.size()), .shards = shards, .mine = {0, shards}});
}

// A number of shards per replica has to fit the tree: each rank's subtree must have one for each of its replicas.
int default_shards(int ranks, int replicas_a_rank) {
  const int replicas = ranks * replicas_a_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    if (subtree_of(replicas, ranks, rank).size() < replicas_a_rank)
      return replicas_a_rank * static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  }
  return replicas;
}

std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards, comm::Group& ranks,
                                      const Limits& limits) {
  Placement common{.shards = shards, .mine = shards_of_rank(ranks, shards)};
  // Every rank tells every other, so that all learn of a fault on any.
  const std::vector<double> mine{static_cast<double>(devices.size()), static_cast<double>(shards),
                                 static_cast<double>(common.mine.size())};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(mine, all, limits);
  common.replicas = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const double* its = all.data() + static_cast<std::ptrdiff_t>(mine.size()) * rank;
    const double replicas = its[0], its_shards = its[1], fall_to_it = its[2];
    if (its_shards != all[1]) {
      throw ConfigError(concat("rank 0 has ", all[1], " shards, rank ", rank, " has ", its_shards,
                               "; give all ranks the same number"));
    }
    if (replicas > fall_to_it) {
      throw ConfigError(concat("of ", shards, " shards ", fall_to_it, " fall to rank ", rank, " of ", ranks.size(),
                               ", which has ", replicas, " replicas, and each needs at least one; use more shards, or ",
                               "fewer devices or ranks"));
    }
    if (rank < ranks.rank()) common.replica += static_cast<int>(replicas);
    common.replicas += static_cast<int>(replicas);
  }
  return place(devices, common);
}

Replica::Replica(const Placement& placement, std::shared_ptr<torch::nn::Module> module, std::uint64_t run_seed,
                 const std::vector<model::OptimizerOptions>& optimizer, const model::FlatParameters::Options& flat)
    : placement_(placement), module_(std::move(module)), parameters_(module_, flat), buffers_(module_) {
  device::begin_vector_math();
  if (!optimizer.empty()) optimizer_.emplace(parameters_, optimizer);
  for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
    generators_.push_back(model::make_shard_generator(run_seed, shard));
  }
}

model::Optimizer& Replica::optimizer() {
  TANDEM_EXPECTS(has_optimizer(), "the optimizer of a replica that was made without one; give it OptimizerOptions");
  return *optimizer_;
}

at::Generator& Replica::generator(int shard) {
  TANDEM_EXPECTS(shard >= placement_.mine.begin && shard < placement_.mine.end, "shard ", shard, " is not of replica ",
                 placement_.replica, ", which has shards ", placement_.mine.begin, " to ", placement_.mine.end - 1);
  return generators_[static_cast<std::size_t>(shard - placement_.mine.begin)];
}

// Names here are only for messages; the tensors are whole flat buffers, so that a broadcast has few of them to send.
model::NamedTensors Replica::state() {
  model::NamedTensors all;
  for (std::size_t b = 0; b < parameters_.buffers().size(); ++b) {
    all.emplace_back(concat("parameters.", b), parameters_.buffers()[b].values);
  }
  const auto named = module_->named_parameters();
  for (const std::string& name : parameters_.frozen()) all.emplace_back("frozen." + name, named[name].detach());
  for (std::size_t b = 0; b < buffers_.values().size(); ++b) {
    all.emplace_back(concat("buffers.", b), buffers_.values()[b].values);
  }
  append_optimizer_state(all);
  return all;
}

model::NamedTensors Replica::named_state() {
  model::NamedTensors all = model::named_state_of(*module_);
  append_optimizer_state(all);
  return all;
}

void Replica::append_optimizer_state(model::NamedTensors& to) const {
  if (!optimizer_) return;
  for (const auto& [name, tensor] : optimizer_->state()) to.emplace_back(kOptimizerState + name, tensor);
}

// --- the state of all replicas ---------------------------------------------------------------------------------------

std::vector<std::string> gather_text(comm::Group& group, const std::string& mine, const Limits& limits) {
  const at::Tensor bytes = at::empty({std::ssize(mine)}, at::kByte);
  if (!mine.empty()) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  std::vector<std::string> all;
  for (const at::Tensor& its : group.all_gather(bytes, limits))
    all.emplace_back(static_cast<const char*>(its.const_data_ptr()), static_cast<std::size_t>(its.numel()));
  return all;
}

void require_same_model(Replica& replica, comm::Group& group, const Limits& limits) {
  std::vector<Lines> descriptions;
  for (const std::string& text : gather_text(group, describe(replica), limits)) {
    std::istringstream in(text);
    Lines& lines = descriptions.emplace_back();
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  compare(descriptions);
}

void broadcast_state(Replica& replica, comm::Group& group, int root, const Limits& limits) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : replica.state()) group.broadcast(tensor, root, limits);
  if (replica.has_optimizer()) replica.optimizer().state_changed();
}

namespace {

// Of the names of named_state().
bool is_buffer(const std::string& name) { return name.starts_with("buffers."); }

// Names a tensor that differs, and why. Steps make buffers equal on all replicas, so that one that differs while
// parameters do not was changed since the last step.
[[noreturn]] void fail_different(const std::pair<std::string, at::Tensor>& tensor, const std::string& others,
                                 std::string_view advice, std::string_view buffer_advice) {
  const std::string which =
      concat("'", tensor.first, "' ", tensor.second.sizes(), " of replica ", others, " differs from replica 0's");
  if (!is_buffer(tensor.first)) {
    throw RunError(concat("the replicas have drifted apart: ", which,
                          ". Something changed it outside of the strategy's ",
                          "step, or the replicas run on different instruction sets or libraries. ", advice));
  }
  throw RunError(
      concat("the replicas' buffers differ: ", which, ", while parameters and optimizer are equal. Each step ",
             "makes buffers equal, so this one was written to after the last: a forward pass in train() mode ",
             "does so, by this replica's rows alone, to the running statistics of a batch norm. Call eval() ",
             "before passes that are not followed by a step. ", buffer_advice.empty() ? advice : buffer_advice));
}

}  // namespace

void require_same_state(Replica& replica, comm::Group& group, std::string_view advice, const Limits& limits,
                        std::string_view buffer_advice) {
  if (group.size() == 1) return;
  const model::NamedTensors state = replica.named_state();
  std::vector<std::int64_t> digests;
  for (const auto& [name, tensor] : state) append_digest(tensor, digests);
  const std::vector<at::Tensor> all = group.all_gather(at::tensor(digests, at::kLong), limits);
  for (std::size_t member = 1; member < all.size(); ++member) {
    if (all[member].numel() == all[0].numel()) continue;
    throw RunError(concat("the replicas have drifted apart: replica ", member, " has ", all[member].numel() / 2,
                          " tensors of state, replica 0 has ", all[0].numel() / 2,
                          "; something was registered on one of them after the start. ", advice));
  }
  // Parameters and the optimizer's state first: where these differ, buffers do so for the same reason.
  std::optional<std::pair<std::size_t, std::string>> worst;
  for (std::size_t tensor = 0; tensor < state.size(); ++tensor) {
    std::string others;
    for (std::size_t member = 1; member < all.size(); ++member) {
      const auto* first = all[0].const_data_ptr<std::int64_t>() + 2 * tensor;
      const auto* its = all[member].const_data_ptr<std::int64_t>() + 2 * tensor;
      if (!std::equal(first, first + 2, its)) others += concat(others.empty() ? "" : ", ", member);
    }
    if (others.empty() || (worst && is_buffer(state[tensor].first))) continue;
    worst = {tensor, others};
    if (!is_buffer(state[tensor].first)) break;
  }
  if (worst) fail_different(state[worst->first], worst->second, advice, buffer_advice);
}

}  // namespace tandem::sync

#include "tandem/rl/algo/run_parts.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {
namespace {

constexpr const char* kGenerator = "generator";

}  // namespace

void require_sequences_for(const ActorCritic& policy, bool has_sequences) {
  const bool remembers = dynamic_cast<const RecurrentActorCritic*>(&policy) != nullptr;
  if (remembers == has_sequences) return;
  throw ConfigError(remembers
                        ? "the policy is recurrent, so the options must say how long its sequences are (sequences)"
                        : "the options say how long sequences are, but the policy is not recurrent");
}

std::string params_sha256_of(const torch::nn::Module& policy) {
  return model::bytes_sha256(model::named_parameters_of(policy));
}

std::string state_sha256_of(learner::ReplicaTeam& team, const Normalizers& normalizers,
                            const model::NamedTensors& more) {
  model::NamedTensors state = team.state();
  state.insert(state.end(), more.begin(), more.end());
  for (const auto& [name, tensor] : normalizers.state()) state.emplace_back("normalizer." + name, tensor);
  return model::state_sha256(std::move(state));
}

void report_episodes(const EpisodeWindow& episodes, RunReport& report) {
  report.episode_return_mean = episodes.mean_return();
  report.episode_length_mean = episodes.mean_length();
  report.episodes = episodes.total();
}

std::string shard_part(int shard) { return concat("shard-", shard); }
std::string group_part(int group) { return concat("env-group-", group); }

model::NamedTensors stream_of(at::Generator& generator) { return {{kGenerator, generator.get_state()}}; }

void load_stream(const model::NamedTensors& part, at::Generator& generator, int shard) {
  generator.set_state(find(part, kGenerator, shard_part(shard)));
}

at::Tensor tensor_of(const std::vector<std::byte>& bytes) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

const at::Tensor& find(const model::NamedTensors& tensors, const std::string& name, const std::string& part) {
  for (const auto& [other, tensor] : tensors) {
    if (other == name) return tensor;
  }
  throw CheckpointError(concat("part '", part, "' of the checkpoint has no '", name, "'"));
}

model::NamedTensors run_part_of(const std::vector<std::int64_t>& counters, const EpisodeWindow& episodes) {
  std::vector<double> returns;
  std::vector<std::int64_t> lengths;
  for (const Episode& episode : episodes.episodes()) {
    returns.push_back(episode.episode_return);
    lengths.push_back(episode.length);
  }
  return {{"counters", at::tensor(counters, at::kLong)},
          {"episode_return", at::tensor(returns, at::kDouble)},
          {"episode_length", at::tensor(lengths, at::kLong)}};
}

// The number of counters tells a checkpoint of another kind of run.
std::vector<std::int64_t> counters_of(const model::NamedTensors& run, std::size_t count) {
  const at::Tensor counters = find(run, "counters", "run").contiguous();
  if (counters.numel() != static_cast<std::int64_t>(count)) {
    throw CheckpointError(concat("part 'run' has ", counters.numel(), " counters, expected ", count));
  }
  const auto* counter = counters.const_data_ptr<std::int64_t>();
  return {counter, counter + count};
}

// Only returns and lengths are kept: step and row serve to order new episodes.
void restore_episodes(const model::NamedTensors& run, std::int64_t total, EpisodeWindow& episodes) {
  const at::Tensor returns = find(run, "episode_return", "run"), lengths = find(run, "episode_length", "run");
  std::vector<Episode> all;
  for (std::int64_t i = 0; i < std::min(returns.numel(), lengths.numel()); ++i) {
    all.push_back(
        {.episode_return = returns.const_data_ptr<double>()[i], .length = lengths.const_data_ptr<std::int64_t>()[i]});
  }
  episodes.restore(std::move(all), total);
}

}  // namespace tandem::rl

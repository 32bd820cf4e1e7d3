#include "tandem/rl/env/native/classic_group.h"

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {
namespace {

constexpr std::uint32_t kStateFormat = 1;

// Throws ConfigError unless count >= 1; called before memory for `count` environments is taken.
int positive(int count, const Spec& spec) {
  if (count < 1) throw ConfigError(concat(spec.id, ": a group of ", count, " environments; it needs at least 1"));
  return count;
}

float* floats(const std::vector<std::byte*>& leaves) { return reinterpret_cast<float*>(leaves.front()); }

}  // namespace

ClassicGroup::ClassicGroup(Spec spec, int count, int state_size)
    : spec_(std::move(spec)),
      count_(positive(count, spec_)),
      state_size_(state_size),
      row_size_(static_cast<std::size_t>(spec_.observation.front().count())),
      columns_(static_cast<std::size_t>(count) * static_cast<std::size_t>(state_size)),
      elapsed_(static_cast<std::size_t>(count)),
      random_(static_cast<std::size_t>(count)) {}

void ClassicGroup::reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) {
  check_arrays(out);
  TANDEM_CHECK(seeds.size() == random_.size(), spec_.id, ": ", seeds.size(), " seeds for ", count_, " environments");
  for (int env = 0; env < count_; ++env) {
    const auto e = static_cast<std::size_t>(env);
    random_[e] = NumpyGenerator(seeds[e]);
    elapsed_[e] = 0;
    start(env, random_[e]);
    observe(env, floats(out.observation) + e * row_size_);
  }
}

// All environments move in one call of advance(); checks, time limits and new episodes are loops of their own, so that
// each is simple enough for vector instructions.
// Moves last observations to where they belong and starts new episodes (autoreset).
template <typename HasEnded>
void ClassicGroup::restart_ended(const EnvArrays& out, const HasEnded& has_ended) {
  for (int env = 0; env < count_; ++env) {
    const auto e = static_cast<std::size_t>(env);
    if (!has_ended(e)) continue;
    if (at_end_) at_end_(env);
    float* row = floats(out.observation) + e * row_size_;
    if (!out.final_observation.empty()) {
      std::copy_n(row, row_size_, floats(out.final_observation) + e * row_size_);
    }
    elapsed_[e] = 0;
    start(env, random_[e]);
    observe(env, row);
  }
}

void ClassicGroup::step(const EnvActions& actions, const EnvArrays& out) {
  check_arrays(out);
  TANDEM_CHECK(out.reward != nullptr && out.terminated != nullptr && out.truncated != nullptr, spec_.id);
  check_actions(spec_, random_.size(), actions);
  advance(actions, floats(out.observation), out.reward, out.terminated);
  check_observations(floats(out.observation));
  if (count_step(out)) restart_ended(out, [&](std::size_t e) { return (out.terminated[e] | out.truncated[e]) != 0; });
}

// Environments that rest make the step too, in memory that is put back behind it: so advance() need not know of them.
void ClassicGroup::step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) {
  check_arrays(out);
  TANDEM_CHECK(out.reward != nullptr && out.terminated != nullptr && out.truncated != nullptr, spec_.id);
  TANDEM_CHECK(rows.size() == random_.size(), spec_.id, ": ", rows.size(), " rows for ", count_);
  check_actions(spec_, random_.size(), actions);
  kept_.columns.resize(columns_.size());
  kept_.reward.resize(random_.size());
  kept_.rows.resize(random_.size() * row_size_);
  kept_.terminated.resize(random_.size());
  const auto to = [](const auto& from, auto& into) { into = from; };
  const auto back = [](auto& into, const auto& from) { into = from; };
  for (std::size_t e = 0; e < rows.size(); ++e) {
    if (rows[e] == RowStep::kRest) copy_row(e, out, kept_, to);
  }
  advance(actions, floats(out.observation), out.reward, out.terminated);
  for (std::size_t e = 0; e < rows.size(); ++e) {
    if (rows[e] == RowStep::kRest) copy_row(e, out, kept_, back);
  }
  check_observations(floats(out.observation));
  for (std::size_t e = 0; e < rows.size(); ++e) {
    if (rows[e] == RowStep::kRest) continue;
    ++elapsed_[e];
    out.truncated[e] = rows[e] == RowStep::kLastStep || elapsed_[e] >= spec_.max_episode_steps;
  }
  restart_ended(
      out, [&](std::size_t e) { return rows[e] != RowStep::kRest && (out.terminated[e] | out.truncated[e]) != 0; });
}

template <typename Copy>
void ClassicGroup::copy_row(std::size_t e, const EnvArrays& out, Kept& kept, const Copy& copy) {
  const auto rows = static_cast<std::size_t>(count_);
  for (std::size_t at = e; at < columns_.size(); at += rows) copy(columns_[at], kept.columns[at]);
  for (std::size_t i = e * row_size_; i < (e + 1) * row_size_; ++i) copy(floats(out.observation)[i], kept.rows[i]);
  copy(out.reward[e], kept.reward[e]);
  copy(out.terminated[e], kept.terminated[e]);
}

// Counts the step and applies the time limit. True when an episode ended.
bool ClassicGroup::count_step(const EnvArrays& out) {
  const std::int32_t limit = spec_.max_episode_steps;
  std::uint8_t any = 0;
  for (std::size_t e = 0; e < elapsed_.size(); ++e) {
    const std::int32_t steps = elapsed_[e] + 1;
    elapsed_[e] = steps;
    out.truncated[e] = steps >= limit;
    any = static_cast<std::uint8_t>(any | out.truncated[e] | out.terminated[e]);
  }
  return any != 0;
}

// The layout: format, id, number of environments and of variables; then for each environment its generator, its elapsed
// steps and its variables.
std::vector<std::byte> ClassicGroup::save() const {
  StateWriter writer;
  writer.put(kStateFormat);
  writer.put_text(spec_.id);
  writer.put(std::int32_t{count_});
  writer.put(std::int32_t{state_size_});
  for (int env = 0; env < count_; ++env) {
    const auto e = static_cast<std::size_t>(env);
    writer.put(random_[e].state());
    writer.put(elapsed_[e]);
    for (int variable = 0; variable < state_size_; ++variable) writer.put(column(variable)[env]);
  }
  return writer.take();
}

// A state variable that is not finite, or an episode beyond its limit, could not have been saved.
void ClassicGroup::load(std::span<const std::byte> state, const EnvArrays& out) {
  check_arrays(out);
  StateReader reader(state, concat("environment group '", spec_.id, "'"));
  reader.expect(kStateFormat, "its format");
  reader.expect_text(spec_.id, "its environment");
  reader.expect(std::int32_t{count_}, "its number of environments");
  reader.expect(std::int32_t{state_size_}, "its number of state variables");
  for (int env = 0; env < count_; ++env) {
    const auto e = static_cast<std::size_t>(env);
    random_[e].set_state(reader.get<NumpyGenerator::State>());
    elapsed_[e] = reader.get<std::int32_t>();
    for (int variable = 0; variable < state_size_; ++variable) {
      const auto value = reader.get<double>();
      if (!std::isfinite(value))
        reader.fail(concat("state variable ", variable, " of environment ", env, " is ", value));
      column(variable)[env] = value;
    }
    if (elapsed_[e] < 0 || elapsed_[e] >= spec_.max_episode_steps) {
      reader.fail(concat("environment ", env, " is ", elapsed_[e], " steps into an episode of at most ",
                         spec_.max_episode_steps));
    }
  }
  reader.expect_end();
  for (int env = 0; env < count_; ++env) {
    observe(env, floats(out.observation) + static_cast<std::size_t>(env) * row_size_);
  }
}

void ClassicGroup::render(int env, Canvas& canvas) const {
  TANDEM_CHECK(env >= 0 && env < count_, env);
  draw(env, canvas);
}

std::vector<double> ClassicGroup::state(int env) const {
  TANDEM_CHECK(env >= 0 && env < count_, env);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(state_size_));
  for (int variable = 0; variable < state_size_; ++variable) values.push_back(column(variable)[env]);
  return values;
}

void ClassicGroup::set_state(int env, std::span<const double> state, int elapsed_steps) {
  TANDEM_CHECK(env >= 0 && env < count_, env);
  TANDEM_CHECK(static_cast<int>(state.size()) == state_size_, state.size(), " values for ", state_size_, " variables");
  TANDEM_CHECK(elapsed_steps >= 0 && elapsed_steps < spec_.max_episode_steps, elapsed_steps);
  for (int variable = 0; variable < state_size_; ++variable) {
    column(variable)[env] = state[static_cast<std::size_t>(variable)];
  }
  elapsed_[static_cast<std::size_t>(env)] = elapsed_steps;
}

void ClassicGroup::check_arrays(const EnvArrays& out) const {
  TANDEM_CHECK(out.observation.size() == 1 && out.observation.front() != nullptr, spec_.id);
  TANDEM_CHECK(out.final_observation.size() <= 1, spec_.id);
}

// One look over all rows; the environment is found by the element's index.
void ClassicGroup::check_observations(const float* observation) const {
  const std::span<const float> all(observation, static_cast<std::size_t>(count_) * row_size_);
  if (const auto at = first_not_finite(all)) {
    throw EnvError(concat(spec_.id, ": environment ", *at / row_size_, " of ", count_, ", after ",
                          elapsed_[*at / row_size_], " steps of its episode, shows ", all[*at], " in element ",
                          *at % row_size_, " of its observation"));
  }
}

// gymnasium's Box has float32 bounds.
Leaf bounded_observation(const std::vector<double>& low, const std::vector<double>& high) {
  const auto rounded = [](std::vector<double> values) {
    for (double& value : values) value = static_cast<float>(value);
    return values;
  };
  return {.name = "obs",
          .type = ElementType::kFloat32,
          .shape = {static_cast<std::int64_t>(high.size())},
          .low = rounded(low),
          .high = rounded(high)};
}

}  // namespace tandem::rl

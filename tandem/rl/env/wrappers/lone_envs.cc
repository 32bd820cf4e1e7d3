#include "tandem/rl/env/wrappers/lone_envs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/row_arrays.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {
namespace {

constexpr std::uint32_t kLoneEnvsFormat = 1;
constexpr std::uint64_t kResetsAfterCuts = std::uint64_t{1} << 63;

}  // namespace

std::unique_ptr<EnvGroup> group_by_row(const MakeEnvGroup& make, int count) {
  std::unique_ptr<EnvGroup> group = make(count);
  if (stepped_by_row(*group) != nullptr) return group;
  group.reset();  // before others take its place: simulators may want much memory
  std::vector<std::unique_ptr<EnvGroup>> groups;
  for (int e = 0; e < count; ++e) groups.push_back(make(1));
  return std::make_unique<LoneEnvs>(std::move(groups));
}

LoneEnvs::LoneEnvs(std::vector<std::unique_ptr<EnvGroup>> groups)
    : envs_([&] {
        std::vector<One> envs;
        for (std::unique_ptr<EnvGroup>& group : groups) {
          TANDEM_CHECK(group->size() == 1, group->spec().id, ": ", group->size());
          StepsByRow* const by_row = stepped_by_row(*group);
          envs.push_back({.group = std::move(group), .by_row = by_row});
        }
        return envs;
      }()),
      spec_(envs_.front().group->spec()) {}

const EnvArrays& LoneEnvs::part(std::size_t e, const EnvArrays& all) {
  row_of(spec_, e, all, part_);
  return part_;
}

EnvActions LoneEnvs::part(std::size_t e, const EnvActions& all) const { return row_of(spec_, e, all); }

void LoneEnvs::reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) {
  TANDEM_CHECK(seeds.size() == envs_.size(), spec_.id, ": ", seeds.size(), " seeds for ", envs_.size());
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    envs_[e].seed = seeds[e];
    envs_[e].resets = 0;
    envs_[e].group->reset(seeds.subspan(e, 1), part(e, out));
  }
}

void LoneEnvs::step(const EnvActions& actions, const EnvArrays& out) {
  for (std::size_t e = 0; e < envs_.size(); ++e) step_one(e, RowStep::kStep, actions, out);
}

void LoneEnvs::step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) {
  TANDEM_CHECK(rows.size() == envs_.size(), spec_.id, ": ", rows.size(), " rows for ", envs_.size());
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    if (rows[e] != RowStep::kRest) step_one(e, rows[e], actions, out);
  }
}

void LoneEnvs::step_one(std::size_t e, RowStep kind, const EnvActions& actions, const EnvArrays& out) {
  One& env = envs_[e];
  const EnvArrays& own = part(e, out);
  try {
    if (env.by_row != nullptr && kind != RowStep::kStep)
      return env.by_row->step_rows({&kind, 1}, part(e, actions), own);
    env.group->step(part(e, actions), own);
    if (kind == RowStep::kLastStep && (*own.terminated | *own.truncated) == 0) cut_short(e, own);
  } catch (const EnvError& error) {
    throw EnvError(concat("environment ", e, " of ", envs_.size(), " of a group: ", error.what()));
  }
}

void LoneEnvs::cut_short(std::size_t e, const EnvArrays& part) {
  One& env = envs_[e];
  *part.truncated = 1;
  for (std::size_t l = 0; l < part.final_observation.size(); ++l)
    std::memcpy(part.final_observation[l], part.observation[l], spec_.observation[l].bytes());
  if (part.metrics != nullptr)
    std::fill_n(part.metrics, spec_.metrics.size(), std::numeric_limits<double>::quiet_NaN());
  if (at_end_) at_end_(static_cast<int>(e));
  const std::uint64_t seed = derive_seed(env.seed, SeedPurpose::kEnvWrapper, kResetsAfterCuts | ++env.resets);
  env.group->reset({&seed, 1}, part);
}

void LoneEnvs::set_progress(double share) {
  for (One& env : envs_) env.group->set_progress(share);
}

std::vector<std::byte> LoneEnvs::save() const {
  StateWriter writer;
  writer.put_group(kLoneEnvsFormat, spec_.id, envs_.size());
  for (const One& env : envs_) {
    const std::vector<std::byte> its = env.group->save();
    if (its.empty()) return {};  // as WrappingGroup::save()
    writer.put(env.seed);
    writer.put(env.resets);
    writer.put_bytes(its);
  }
  return writer.take();
}

void LoneEnvs::load(std::span<const std::byte> state, const EnvArrays& out) {
  StateReader reader(state, concat("lone environments '", spec_.id, "'"));
  reader.expect_group(kLoneEnvsFormat, spec_.id, envs_.size());
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    envs_[e].seed = reader.get<std::uint64_t>();
    envs_[e].resets = reader.get<std::uint64_t>();
    envs_[e].group->load(reader.get_bytes(), part(e, out));
  }
  reader.expect_end();
}

void LoneEnvs::render(int env, Canvas& canvas) const {
  TANDEM_CHECK(env >= 0 && env < size(), env);
  envs_[static_cast<std::size_t>(env)].group->render(0, canvas);
}

void LoneEnvs::watch_ends(std::function<void(int env)> at_end) {
  at_end_ = std::move(at_end);
  for (std::size_t e = 0; e < envs_.size(); ++e) {
    if (!at_end_) {
      envs_[e].group->watch_ends({});
    } else {
      envs_[e].group->watch_ends([this, e](int /*only*/) { at_end_(static_cast<int>(e)); });
    }
  }
}

}  // namespace tandem::rl

#include "tandem/rl/env/isolated/several_workers.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
SeveralWorkers::SeveralWorkers(const Spec& spec, int count, int workers, const IsolationOptions& options,
                               const std::shared_ptr<RestartBudget>& budget) {
  if (count < 1) throw ConfigError(concat("a group of ", count, " environments; it needs at least 1"));
  TANDEM_CHECK(workers >= 1 && workers <= count, workers, " workers for ", count, " environments");
  for (int w = 0, first = 0; w < workers; ++w) {
    const int rows = count / workers + (w < count % workers ? 1 : 0);
    IsolationOptions its = options;
    its.task.part = WorkerTask::PartOfGroup{.first = first, .whole = count};
    parts_.push_back({.group = std::make_unique<IsolatedEnvs>(spec, rows, std::move(its), budget),
                      .first = static_cast<std::size_t>(first)});
    first += rows;
  }
}

int SeveralWorkers::size() const { return static_cast<int>(parts_.back().first) + parts_.back().group->size(); }

const EnvArrays& SeveralWorkers::arrays_of(const Part& part, const EnvArrays& all) {
  part_ = all;
  for (std::vector<std::byte*>* leaves : {&part_.observation, &part_.final_observation}) {
    for (std::size_t l = 0; l < leaves->size(); ++l) (*leaves)[l] += part.first * spec().observation[l].bytes();
  }
  const auto options = static_cast<std::size_t>(mask_elements(spec().action));
  if (part_.action_mask != nullptr) part_.action_mask += part.first * options;
  if (part_.reward != nullptr) part_.reward += part.first;
  if (part_.terminated != nullptr) part_.terminated += part.first;
  if (part_.truncated != nullptr) part_.truncated += part.first;
  if (part_.metrics != nullptr) part_.metrics += part.first * spec().metrics.size();
  return part_;
}

EnvActions SeveralWorkers::actions_of(const Part& part, const EnvActions& all) const {
  const std::size_t at = part.first * static_cast<std::size_t>(action_elements(spec().action));
  return {.discrete = all.discrete == nullptr ? nullptr : all.discrete + at,
          .box = all.box == nullptr ? nullptr : all.box + at};
}

void SeveralWorkers::reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) {
  TANDEM_CHECK(seeds.size() == static_cast<std::size_t>(size()), spec().id, ": ", seeds.size(), " seeds for ", size());
  for (const Part& part : parts_) {
    part.group->reset(seeds.subspan(part.first, static_cast<std::size_t>(part.group->size())), arrays_of(part, out));
  }
}

void SeveralWorkers::step_rows(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) {
  TANDEM_CHECK(which.size() == static_cast<std::size_t>(size()), spec().id, ": ", which.size(), " rows for ", size());
  step_some(which, actions, out);
}

// All workers are asked before the first is waited for, and all have answered before an error is thrown: a request that
// nobody waits for would be taken for the next one's.
void SeveralWorkers::step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) {
  const auto its = [which](const Part& part) {
    const auto count = static_cast<std::size_t>(part.group->size());
    return which.empty() ? which : which.subspan(part.first, count);
  };
  std::exception_ptr error;
  std::size_t begun = 0;
  try {
    for (; begun < parts_.size(); ++begun)
      parts_[begun].group->begin_step(its(parts_[begun]), actions_of(parts_[begun], actions));
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t w = 0; w < begun; ++w) {
    try {
      parts_[w].group->end_step(its(parts_[w]), arrays_of(parts_[w], out));
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void SeveralWorkers::set_progress(double share) {
  for (const Part& part : parts_) part.group->set_progress(share);
}

std::vector<std::byte> SeveralWorkers::save() const {
  throw EnvError(concat(spec().id, ": environments in several processes are not saved"));
}

void SeveralWorkers::load(std::span<const std::byte> /*state*/, const EnvArrays& /*out*/) {
  throw CheckpointError(concat(spec().id, ": environments in several processes have no saved state"));
}

void SeveralWorkers::render(int env, Canvas& canvas) const {
  const auto e = static_cast<std::size_t>(env);
  const auto behind = std::ranges::find_if(parts_, [e](const Part& part) { return part.first > e; });
  const Part& its = *std::prev(behind);
  its.group->render(static_cast<int>(e - its.first), canvas);
}

void SeveralWorkers::watch_ends(std::function<void(int env)> at_end) {
  for (const Part& part : parts_) {
    if (at_end)
      part.group->watch_ends([at_end, first = static_cast<int>(part.first)](int env) { at_end(first + env); });
    else
      part.group->watch_ends({});
  }
}

std::unique_ptr<EnvGroup> in_workers(const Spec& spec, int count, int workers, const IsolationOptions& options,
                                     const std::shared_ptr<RestartBudget>& budget) {
  const int most = std::min(workers, count);
  if (most < 2) return std::make_unique<IsolatedEnvs>(spec, count, options, budget);
  return std::make_unique<SeveralWorkers>(spec, count, most, options, budget);
}

}  // namespace tandem::rl

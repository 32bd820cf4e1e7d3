#include "tandem/rl/rollout/observation_intake.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/float32_steps.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::rl {
namespace {

// Fewer rows do not show how far an element moves.
constexpr std::int64_t kRowsToJudge = 1024;

constexpr const char* kNextStep =
    "normalize.observations: true subtracts the mean in float64 before; or show the element relative to its start";

}  // namespace

ObservationIntake::ObservationIntake(const Spec& spec, bool normalized, std::shared_ptr<Remarks> remarks)
    : spec_(spec), remarks_(std::move(remarks)), seen_(spec.observation.size()) {
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    ways_.push_back(normalized ? (narrows(l) ? Way::kNormalizedWide : Way::kNormalized)
                               : (narrows(l) ? Way::kNarrowed : Way::kAsItIs));
    converts_any_ |= converts(l);
    if (ways_.back() != Way::kNarrowed || !remarks_) continue;
    bool told = false;
    for (std::size_t i = 0; i < leaf.low.size() && !told; ++i) {
      told = float32_loses(leaf.low[i], leaf.high[i]);
      if (told)
        remarks_->add(concat(spec.id, ": policies see the observation leaf '", leaf.name,
                             "', which is float64, as float32, ", "and between the bounds ", leaf.low[i], " and ",
                             leaf.high[i], " of its element ", i, " float32 has steps of ",
                             float32_step(leaf.low[i], leaf.high[i]), "; ", kNextStep));
    }
    if (told) continue;
    seen_[l].least.assign(static_cast<std::size_t>(leaf.count()), std::numeric_limits<double>::infinity());
    seen_[l].most.assign(static_cast<std::size_t>(leaf.count()), -std::numeric_limits<double>::infinity());
  }
}

std::vector<at::Tensor> ObservationIntake::memory(std::int64_t rows) const {
  std::vector<at::Tensor> leaves;
  for (const Leaf& leaf : spec_.observation)
    leaves.push_back(at::zeros(with_rows({rows}, leaf), scalar_type(leaf.type)));
  return leaves;
}

void ObservationIntake::show(std::size_t leaf, const void* raw, void* seen, std::int64_t rows,
                             const Normalizers* frozen, std::size_t first_row) {
  switch (ways_[leaf]) {
    case Way::kAsItIs:
      if (raw != seen) std::memcpy(seen, raw, static_cast<std::size_t>(rows) * spec_.observation[leaf].bytes());
      return;
    case Way::kNormalized:
      return frozen->normalize(leaf, static_cast<const float*>(raw), static_cast<float*>(seen), rows);
    case Way::kNormalizedWide:
      return frozen->normalize(leaf, static_cast<const double*>(raw), static_cast<float*>(seen), rows);
    case Way::kNarrowed:
      return narrow(leaf, static_cast<const double*>(raw), static_cast<float*>(seen), rows, first_row);
  }
}

void ObservationIntake::narrow(std::size_t leaf, const double* raw, float* seen, std::int64_t rows,
                               std::size_t first_row) {
  const auto count = static_cast<std::size_t>(spec_.observation[leaf].count());
  const std::size_t numbers = static_cast<std::size_t>(rows) * count;
  std::transform(raw, raw + numbers, seen, [](double number) { return static_cast<float>(number); });
  if (const auto at = first_not_finite(std::span<const float>(seen, numbers)))
    throw EnvError(concat(spec_.id, ": element ", *at % count, " of the observation leaf '",
                          spec_.observation[leaf].name, "' is ", raw[*at], " in row ", first_row + *at / count,
                          " of its env group, which is beyond float32, as which policies see it; "
                          "normalize.observations: true takes any number, or show a smaller one"));
  if (!seen_[leaf].least.empty()) watch(leaf, raw, rows);
}

void ObservationIntake::watch(std::size_t leaf, const double* raw, std::int64_t rows) {
  Seen& seen = seen_[leaf];
  const std::size_t count = seen.least.size();
  for (std::int64_t row = 0; row < rows; ++row, raw += count) {
    for (std::size_t i = 0; i < count; ++i) {
      seen.least[i] = std::min(seen.least[i], raw[i]);
      seen.most[i] = std::max(seen.most[i], raw[i]);
    }
  }
  seen.rows += rows;
  if (seen.rows < kRowsToJudge) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (!float32_loses(seen.least[i], seen.most[i])) continue;
    remarks_->add(concat(spec_.id, ": policies see the observation leaf '", spec_.observation[leaf].name,
                         "', which is float64, as float32: its element ", i, " moved by ", seen.most[i] - seen.least[i],
                         " around ", seen.least[i], " in the first ", seen.rows, " rows, where float32 has steps of ",
                         float32_step(seen.least[i], seen.most[i]), "; ", kNextStep));
    break;
  }
  seen = {};
}

void ObservationIntake::gather(std::size_t leaf, const void* row, RunningMoments& moments) const {
  narrows(leaf) ? moments.add(static_cast<const double*>(row)) : moments.add(static_cast<const float*>(row));
}

}  // namespace tandem::rl

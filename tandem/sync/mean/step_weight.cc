#include "tandem/sync/mean/step_weight.h"

#include <ATen/ATen.h>

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/rethrow.h"

namespace tandem::sync {
namespace {

constexpr const char* kWords = "the sum of the rows of all ranks: ";

}  // namespace

StepWeight::StepWeight(comm::Group& group) : group_(group), sums_(at::zeros({2}, at::kDouble)) {}

void StepWeight::offer(double weight) { start({.weight = weight, .left = 0}); }

void StepWeight::offer_nothing() { start({.weight = 0, .left = 1}); }

void StepWeight::start(const Total& mine) {
  TANDEM_CHECK(!pending_, "a step's weight before the last one's was waited for");
  auto* sums = sums_.mutable_data_ptr<double>();
  sums[0] = mine.weight;
  sums[1] = mine.left;
  try {
    pending_ = group_.start_all_reduce(sums_);
  } catch (const RunError&) {
    rethrow_with(kWords);
  }
}

StepWeight::Total StepWeight::wait(const Limits& limits) {
  TANDEM_CHECK(pending_, "a step's weight that was not offered");
  comm::Pending pending = *std::exchange(pending_, std::nullopt);
  try {
    pending.wait(limits);
  } catch (const RunError&) {
    rethrow_with(kWords);
  }
  const auto* sums = sums_.const_data_ptr<double>();
  return {.weight = sums[0], .left = sums[1]};
}

}  // namespace tandem::sync

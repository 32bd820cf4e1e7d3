#include "tandem/app/config/algorithm.h"

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::vector<std::unique_ptr<const Algorithm>>& registered() {
  // Made at the first use, since a program may register before main() has set anything up.
  static std::vector<std::unique_ptr<const Algorithm>> all;
  return all;
}

const Algorithm* find(std::string_view name) {
  const auto found = std::ranges::find_if(registered(), [&](const auto& one) { return one->name() == name; });
  return found == registered().end() ? nullptr : found->get();
}

}  // namespace

std::string Algorithm::describe_batch(const TrainOptions& options, const rl::TrainingRun&) const {
  const BatchSize batch = batch_size(options);
  return concat("an update has ", batch.may_be_larger ? "at least " : "", batch.env_steps * batch.per_update,
                " environment steps");
}

const std::vector<std::unique_ptr<const Algorithm>>& algorithms() { return registered(); }

const Algorithm& algorithm_of(const TrainOptions& options) {
  const Algorithm* found = find(options.algo);
  TANDEM_CHECK(found != nullptr, "there is no algorithm ", options.algo);
  return *found;
}

void add_algorithm(std::unique_ptr<const Algorithm> algorithm) {
  if (find(algorithm->name()) != nullptr)
    throw ConfigError(concat("algorithm '", algorithm->name(), "': the name is taken; give yours another"));
  registered().push_back(std::move(algorithm));
}

}  // namespace tandem::app

#include "tandem/rl/algo/name_columns.h"

#include "tandem/base/text.h"

namespace tandem::rl {

learner::ColumnName name_column(const Spec& spec, const std::string& name, std::size_t nth) {
  learner::ColumnName called{.text = concat("column '", name, "'")};
  if (name == "observation" && nth < spec.observation.size()) {
    const Leaf& leaf = spec.observation[nth];
    called.text = concat("observation leaf '", leaf.name, "'");
    called.dims_of_row = static_cast<std::int64_t>(leaf.shape.size());
    called.is_given = true;
    called.next_step =
        "Let the environment show smaller numbers, or set normalize.observations: true, which brings each element to "
        "mean 0 and cuts it at normalize.clip_observation";
  } else if (name == "reward" || name == "advantage" || name == "value_target") {
    called.is_given = name == "reward";
    called.next_step =
        "Likely a reward is too large: scale rewards where they are made, or set normalize.rewards: true, which "
        "divides them by the spread of returns and cuts them at normalize.clip_reward";
  }
  return called;
}

}  // namespace tandem::rl

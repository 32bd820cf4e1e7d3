#include "tandem/app/cli/scale_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "tandem/app/config/option_binding.h"
#include "tandem/app/config/value_format.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::int64_t kMostStarted = 250;  // ranks that a host's shared memory can have

constexpr const char* kScaleExample = R"(Example:
  tandem simulate-scale
  tandem simulate-scale --step pareto:1:1.5 --ranks 1,8,64 -o scale.png

Starts real ranks on this machine that exchange, watch each other and end rollouts as `tandem train --algo dd_ppo` does,
but sleep where that would step environments and learn. A cost is milliseconds, "1", or "pareto:1:1.5", drawn each time
from a Pareto distribution with that mean and shape.
)";

// Reads one flag a call into the field that holds its default; an absent flag leaves the default.
class Reader {
 public:
  Reader(const std::map<std::string, std::string>& texts, std::vector<std::string>& faults)
      : texts_(texts), faults_(faults) {}

  template <typename Count>
  void count(const char* flag, std::int64_t least, std::int64_t most, Count& value) {
    if (text(flag).empty()) return;
    const std::optional<std::int64_t> number = read_integer(text(flag));
    if (number && *number >= least && *number <= most) {
      value = static_cast<Count>(*number);
    } else {
      refuse(flag, concat("an integer from ", least, " to ", most));
    }
  }
  void number(const char* flag, double least, double most, double& value) {
    if (text(flag).empty()) return;
    const std::optional<double> number = read_number(text(flag));
    if (number && *number >= least && *number <= most) {
      value = *number;
    } else {
      refuse(flag, concat("a number from ", least, " to ", most));
    }
  }
  void cost(const char* flag, Cost& value) {
    if (text(flag).empty()) return;
    if (const std::optional<Cost> cost = read_cost(text(flag))) {
      value = *cost;
    } else {
      refuse(flag, "milliseconds, as 1 or 0.5, or pareto:MEAN:SHAPE with a shape above 1");
    }
  }
  // Rising numbers keep rows of the report in order, and none comes twice.
  void ranks(const char* flag, std::int64_t most, std::vector<std::int64_t>& value) {
    if (text(flag).empty()) return;
    std::vector<std::int64_t> ranks;
    for (const std::string& item : binding_detail::split_list(text(flag))) {
      const std::optional<std::int64_t> number = read_integer(item);
      if (!number || *number < 1 || *number > most || (!ranks.empty() && *number <= ranks.back()))
        return refuse(flag, concat("numbers of ranks from 1 to ", most, " that rise, as in 1,2,4"));
      ranks.push_back(*number);
    }
    value = std::move(ranks);
  }
  [[nodiscard]] const std::string& text(const char* flag) const { return texts_.at(flag); }

 private:
  void refuse(const char* flag, const std::string& expected) {
    faults_.push_back(concat(flag, " ", text(flag), ": expected ", expected));
  }

  const std::map<std::string, std::string>& texts_;
  std::vector<std::string>& faults_;
};

}  // namespace

// The flag's long name is the key of its text.
void ScaleFlags::add(CLI::App& command, const std::string& flag, const char* takes, const char* help) {
  command.add_option(flag == "--output" ? "-o,--output" : flag, texts_[flag], help)->type_name(takes);
}

ScaleFlags::ScaleFlags(CLI::App& command) {
  add(command, "--ranks", "N,N,...", "Numbers of ranks to start. [1,2,4,8,16,32,64]");
  add(command, "--steps", "N", "Steps of a rank's rollout. [128]");
  add(command, "--step", "COST", "Of each step. [1]");
  add(command, "--slow-rank", "FACTOR", "So many times slower are the steps of the last rank. [1]");
  add(command, "--minibatches", "N", "Of an update. [16]");
  add(command, "--minibatch", "COST", "Of learning from each. [10]");
  add(command, "--parameters", "N", "Whose gradients are summed in each. [10000]");
  add(command, "--sync-frac", "SHARE", "As dd_ppo.sync_frac. [0.6]");
  add(command, "--least-frac", "SHARE", "As dd_ppo.least_frac. [0.25]");
  add(command, "--updates", "N", "Updates to measure. [5]");
  add(command, "--seed", "N", "Decides what costs are drawn. [0]");
  add(command, "--model-ranks", "N,N,...", "Numbers of ranks to calculate besides. [128,512,2048,10000]");
  add(command, "--latency", "MS", "Of a message, in the model. [0.05]");
  add(command, "--gigabits", "N", "A second, of the wire in the model. [10]");
  add(command, "--output", "FILE", "A picture of the efficiencies: .png or .svg.");
  // The empty group hides the flag from the help: only this program gives it, to the ranks that it starts.
  command.add_option("--result", texts_["--result"], "")->group("");
  command.footer(kScaleExample);
}

// Upper limits keep the simulation finite and its numbers within the fields' types.
ScaleOptions ScaleFlags::options(std::vector<std::string>& faults) const {
  ScaleOptions options;
  Reader read(texts_, faults);
  read.ranks("--ranks", kMostStarted, options.ranks);
  read.ranks("--model-ranks", 100'000, options.model_ranks);
  read.count("--steps", 1, 100'000, options.work.steps);
  read.cost("--step", options.work.step);
  read.number("--slow-rank", 1, 1000, options.work.slow_factor);
  read.count("--minibatches", 1, 10'000, options.work.minibatches);
  read.cost("--minibatch", options.work.minibatch);
  read.count("--parameters", 1, 1'000'000'000, options.work.parameters);
  read.number("--sync-frac", 0, 1, options.work.sync_frac);
  read.number("--least-frac", 0, 1, options.work.least_frac);
  read.count("--updates", 1, 100'000, options.updates);
  read.count("--seed", 0, std::int64_t{1} << 62, options.work.seed);
  read.number("--latency", 0, 1000, options.wire.latency_ms);
  read.number("--gigabits", 0.001, 100'000, options.wire.gigabits_per_s);
  if (options.ranks.front() != 1) faults.emplace_back("--ranks: begin with 1, against which efficiency is measured");
  const std::string& picture = read.text("--output");
  if (picture.empty()) return options;
  options.picture = picture;
  if (!picture.ends_with(".png") && !picture.ends_with(".svg"))
    faults.push_back(concat("--output ", picture, ": expected a name that ends in .png or .svg"));
  return options;
}

}  // namespace tandem::app

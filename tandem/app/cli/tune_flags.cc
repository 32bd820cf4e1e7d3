#include "tandem/app/cli/tune_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tandem/app/config/option_binding.h"
#include "tandem/app/config/value_format.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::int64_t kMostRounds = 1000;
constexpr double kLongestRun = 3600;

constexpr const char* kFooter = R"(Example:
  tandem tune --env CartPole-v1 --shards 2 -o tuned.yaml
  tandem train tuned.yaml --run-dir runs/pole
  tandem tune mine.yaml --vary devices,shards,minibatch --seconds 3

Short runs of the real training loop, in a temporary folder, take turns; each layout is judged by the median over the
rounds of its environment steps a second against the given layout's in the same round. After the first round only the
eight fastest and the given one go on. The file has all settings of the layout that was fastest.

What may vary:
  devices    replicas, at most one a shard and a core: the same bits (asynchronous and sync_replicas: other numbers)
  strategy   replicated or divided: the same bits
  loaders    of IMPALA and APPO: the same, up to timing
  shards     and so env groups, at most one a core: other random streams, other numbers
  workers    of IMPALA and APPO, and so env groups and the size of a batch: other numbers
  num_envs   a half to four times the given: other batches, other numbers
  minibatch  a half to four times the given size or number: other steps, other numbers
Without --vary: those that leave what is learned as it is. A layout with other numbers may be fast and learn slowly:
compare its curve before use.

Ctrl-C ends it, and what was measured is shown (exit code 130). Keys of CONFIG that belong to one run of the program
(run_dir, resume, profile) are left out.
)";

std::string list_of_words() {
  std::string text;
  for (const auto& choice : Choices<Vary>::kAll) text += concat(text.empty() ? "" : ", ", choice.word);
  return text;
}

}  // namespace

TuneFlags::TuneFlags(CLI::App& command) {
  command.add_option("--vary", vary_, "What layouts may differ in; see below. [what cannot change learning]")
      ->type_name("NAME,...");
  command.add_option("--rounds", rounds_, "Runs of each layout, whose median counts. [5]")->type_name("N");
  command.add_option("--seconds", seconds_, "That a run of the given layout takes, about. [1]")->type_name("S");
  command.add_option("-o,--output", output_, "The file to write, which must not be there yet. [tuned.yaml]")
      ->type_name("FILE");
  command.footer(kFooter);
}

TuneOptions TuneFlags::options(std::vector<std::string>& faults) const {
  TuneOptions options;
  for (const std::string& word : binding_detail::split_list(vary_)) {
    const std::optional<Vary> what = value_of<Vary>(word);
    if (!what) {
      faults.push_back(
          concat("--vary ", word, ": expected some of ", list_of_words(), ", as in --vary devices,shards"));
    } else if (std::find(options.vary.begin(), options.vary.end(), *what) == options.vary.end()) {
      options.vary.push_back(*what);
    }
  }
  if (!rounds_.empty()) {
    const std::optional<std::int64_t> rounds = read_integer(rounds_);
    if (rounds && *rounds >= 1 && *rounds <= kMostRounds) {
      options.rounds = static_cast<int>(*rounds);
    } else {
      faults.push_back(concat("--rounds ", rounds_, ": expected an integer from 1 to ", kMostRounds));
    }
  }
  if (!seconds_.empty()) {
    const std::optional<double> seconds = read_number(seconds_);
    if (seconds && *seconds > 0 && *seconds <= kLongestRun) {
      options.seconds = *seconds;
    } else {
      faults.push_back(concat("--seconds ", seconds_, ": expected a number above 0, at most ", kLongestRun));
    }
  }
  if (!output_.empty()) options.output = output_;
  return options;
}

}  // namespace tandem::app

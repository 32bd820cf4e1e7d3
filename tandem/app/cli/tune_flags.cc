#include "tandem/app/cli/tune_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/option_binding.h"
#include "tandem/app/config/value_format.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::int64_t kMostRounds = 1000;
// seconds
constexpr double kLongestRun = 3600;

constexpr const char* kExample = R"(Example:
  tandem tune --env CartPole-v1 --shards 2 -o tuned.yaml
  tandem train tuned.yaml --run-dir runs/pole
  tandem tune mine.yaml --vary devices,shards,minibatch --seconds 3

Short runs of the real training loop, in a temporary folder, take turns; each layout is judged by the median over the
rounds of its environment steps a second against the given layout's in the same round. After the first round only the
eight fastest and the given one go on. The file has all settings of the layout that was fastest.

What may vary:
)";
constexpr const char* kNotes =
    R"(Without --vary: those that leave what is learned as it is. A layout with other numbers may be fast and learn slowly:
compare its curve before use.

Ctrl-C ends it, and what was measured is shown (exit code 130). Keys of CONFIG that belong to one run of the program
(run_dir, resume, profile) are left out.
)";

// Returns the knobs of all algorithms, each word once.
std::vector<Knob> all_knobs() {
  const TrainOptions defaults;
  std::vector<Knob> all;
  for (const auto& algorithm : algorithms()) {
    for (Knob& knob : algorithm->knobs(defaults, {})) {
      if (std::ranges::count(all, knob.word, &Knob::word) == 0) all.push_back(std::move(knob));
    }
  }
  return all;
}

std::string footer() {
  std::string text = kExample;
  for (const Knob& knob : all_knobs()) {
    std::string line = "  " + knob.word;
    // Help starts in one column, after at least one space.
    line.resize(std::max<std::size_t>(line.size() + 1, 13), ' ');
    text += line + knob.help + "\n";
  }
  return text + kNotes;
}

}  // namespace

TuneFlags::TuneFlags(CLI::App& command) {
  command.add_option("--vary", vary_, "What layouts may differ in; see below. [what cannot change learning]")
      ->type_name("NAME,...");
  command.add_option("--rounds", rounds_, "Runs of each layout, whose median counts. [5]")->type_name("N");
  command.add_option("--seconds", seconds_, "That a run of the given layout takes, about. [1]")->type_name("S");
  command.add_option("-o,--output", output_, "The file to write, which must not be there yet. [tuned.yaml]")
      ->type_name("FILE");
  command.footer(footer());
}

// Words are read against the knobs of all algorithms; whether the run's own algorithm has one is found out later.
TuneOptions TuneFlags::options(std::vector<std::string>& faults) const {
  TuneOptions options;
  const std::vector<Knob> known = all_knobs();
  for (const std::string& word : binding_detail::split_list(vary_)) {
    if (std::ranges::count(known, word, &Knob::word) == 0) {
      std::string words;
      for (const Knob& knob : known) words += concat(words.empty() ? "" : ", ", knob.word);
      faults.push_back(concat("--vary ", word, ": expected some of ", words, ", as in --vary devices,shards"));
    } else if (std::ranges::count(options.vary, word) == 0) {
      options.vary.push_back(word);
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

// The plan of a check: judge the spec; play once, watching; play again in ways that must give the same, and in ways
// that must not; save, go on, and go back. Each part catches what the environment throws, and the next one begins with
// environments of its own.
#include "tandem/rl/env/check/env_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/check/scale_findings.h"
#include "tandem/rl/env/one_agent_group.h"

namespace tandem::rl {
namespace {

using MakeGroup = std::function<std::unique_ptr<MultiAgentGroup>(int count)>;

MakeGroup maker_of(const EnvRegistry& environments, std::string_view id) {
  if (const MultiAgentEntry* entry = environments.find_multi_agent(id)) return entry->make;
  (void)environments.spec(id);  // throws with the nearest name
  return [&environments, name = std::string(id)](int count) -> std::unique_ptr<MultiAgentGroup> {
    return std::make_unique<OneAgentGroup>(environments.make(name, count));
  };
}

// What belongs to the process, and no environment may change.
struct Surroundings {
  int rounding = std::fegetround();
  std::string locale = std::setlocale(LC_ALL, nullptr);
  std::filesystem::path folder = std::filesystem::current_path();
  std::array<bool, 3> open{::fcntl(0, F_GETFD) != -1, ::fcntl(1, F_GETFD) != -1, ::fcntl(2, F_GETFD) != -1};
};

// Digests of a play: one a step and environment; step 0 is the reset.
using Trace = std::vector<std::vector<std::uint64_t>>;

Trace traced(Play& play, std::int64_t steps) {
  Trace trace;
  const auto note = [&] {
    std::vector<std::uint64_t>& row = trace.emplace_back();
    for (std::size_t e = 0; e < play.environments(); ++e) row.push_back(play.digest(e));
  };
  note();
  for (std::int64_t step = 0; step < steps; ++step) {
    play.step();
    note();
  }
  return trace;
}

// The first step in which two plays differ.
std::optional<std::size_t> first_difference(const Trace& a, const Trace& b) {
  for (std::size_t step = 0; step < a.size(); ++step) {
    if (a[step] != b[step]) return step;
  }
  return std::nullopt;
}

std::string step_or_reset(std::size_t step) { return step == 0 ? "after reset()" : concat("at step ", step); }

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

class Check {
 public:
  Check(MakeGroup make, const EnvCheckOptions& options, EnvCheck& result)
      : make_(std::move(make)), options_(options), result_(result) {
    for (int e = 0; e < options_.environments; ++e) seeds_.push_back(options_.seed + static_cast<std::uint64_t>(e));
    std::int64_t elements = 1;
    for (const AgentSpec& agent : result_.spec.agents) {
      for (const Leaf& leaf : agent.observation) elements += leaf.count();
    }
    constexpr std::int64_t kElements = 20'000'000;  // that the longest play looks at
    steps_ = std::min(options_.steps, std::max<std::int64_t>(kElements / (elements * options_.environments), 100));
    short_steps_ = std::min<std::int64_t>(steps_, 300);
  }

  void run() {
    part("a play", [this] { watch(); });
    part("a second play", [this] { compare_plays(); });
    part("environments that take turns", [this] { compare_in_turns(); });
    part("neighbours that do other things", [this] { compare_neighbours(); });
    part("other seeds", [this] { compare_seeds(); });
    part("other actions", [this] { compare_actions(); });
    part("actions at their bounds", [this] { play_ends(); });
    part("saving", [this] { save_and_load(); });
    part("drawing", [this] { compare_drawn(); });
  }

 private:
  template <typename... Parts>
  void add(Weight weight, const char* kind, const Parts&... parts) {
    result_.findings.push_back({weight, kind, concat(parts...)});
  }

  // An error is reported once: the parts after the first that failed most likely fail alike.
  void part(const char* name, const std::function<void()>& work) {
    if (failed_) return;
    const Surroundings before;
    try {
      work();
    } catch (const Error& error) {
      failed_ = true;
      add(Weight::kFault, "error", "it failed in ", name, ": ", error.what());
    }
    compare_surroundings(before);
  }

  Play begin(const PlayOptions& options = {}) {
    Play play(make_(options_.environments), options);
    play.reset(seeds_);
    return play;
  }

  void watch() {
    Play play = begin();
    result_.observed.look(play);
    const std::int64_t bytes = resident_bytes();
    Clock::duration within{};
    for (std::int64_t step = 0; step < steps_; ++step) {
      const Clock::time_point before = Clock::now();
      play.step();
      within += Clock::now() - before;
      result_.observed.look(play);
    }
    result_.steps_per_second =
        static_cast<double>(steps_ * options_.environments) / std::chrono::duration<double>(within).count();
    const std::int64_t grown = resident_bytes() - bytes;
    if (grown > (std::int64_t{32} << 20)) {
      add(Weight::kWarning, "memory", "the process grew by ", grown >> 20, " MiB in ", steps_ * options_.environments,
          " steps: something is kept after each step or episode");
    }
  }

  // In a group of its own, and once more in the same group, whose reset() must leave nothing of before.
  void compare_plays() {
    Play first = begin();
    const Trace trace = traced(first, short_steps_);
    Play second = begin();
    if (const auto step = first_difference(trace, traced(second, short_steps_))) {
      add(Weight::kFault, "determinism", "two groups with equal seeds and equal actions differ ", step_or_reset(*step),
          ": draw all random numbers of the generator (or seed) that reset() is given");
      deterministic_ = false;
      return;
    }
    second.reset(seeds_);
    if (const auto step = first_difference(trace, traced(second, short_steps_))) {
      add(Weight::kFault, "reset", "after a reset with the same seeds a group differs ", step_or_reset(*step),
          " from what it gave at first: reset() leaves something of the episodes before");
      deterministic_ = false;
    }
  }

  // The same play once more, while environments of other seeds take their steps in between.
  void compare_in_turns() {
    if (!deterministic_) return;
    Play undisturbed = begin();
    const Trace trace = traced(undisturbed, short_steps_);
    Play first = begin(), other(make_(options_.environments), {.seed = 2});
    std::vector<std::uint64_t> seeds = seeds_;
    for (std::uint64_t& seed : seeds) seed += 500;
    other.reset(seeds);
    for (std::int64_t step = 0; step < short_steps_; ++step) {
      first.step();
      other.step();
      for (std::size_t e = 0; e < first.environments(); ++e) {
        if (first.digest(e) == trace[static_cast<std::size_t>(step) + 1][e]) continue;
        deterministic_ = false;
        add(Weight::kFault, "shared-state", "environment ", e, " differs at step ", step + 1,
            " when other environments take steps in between: environments share state, such as a static or global "
            "variable");
        return;
      }
    }
  }

  // The same play of one environment once more, while those beside it in its group have other seeds and other actions.
  void compare_neighbours() {
    if (!deterministic_) return;
    Play undisturbed = begin();
    const Trace trace = traced(undisturbed, short_steps_);
    for (const std::size_t kept : {std::size_t{0}, seeds_.size() - 1}) {
      std::vector<std::uint64_t> seeds = seeds_;
      for (std::uint64_t& seed : seeds) seed += 2000;
      seeds[kept] = seeds_[kept];
      Play play(make_(options_.environments), {.kept = kept});
      play.reset(seeds);
      const Trace other = traced(play, short_steps_);
      for (std::size_t step = 0; step < trace.size(); ++step) {
        if (other[step][kept] == trace[step][kept]) continue;
        deterministic_ = false;
        add(Weight::kFault, "shared-state", "environment ", kept, " of ", seeds_.size(), " differs ",
            step_or_reset(step), " when others of its group have other seeds and other actions: they share state");
        return;
      }
    }
  }

  void compare_seeds() {
    if (!deterministic_) return;
    Play first = begin(), other = begin();
    std::vector<std::uint64_t> seeds = seeds_;
    for (std::uint64_t& seed : seeds) seed += 1000;
    other.reset(seeds);
    if (!first_difference(traced(first, short_steps_), traced(other, short_steps_))) {
      add(Weight::kAdvice, "seed", "all seeds give the same episodes: reset() draws no random number");
    }
  }

  // Each part of each agent's action in turn.
  void compare_actions() {
    if (!deterministic_) return;
    Play usual = begin();
    const Trace trace = traced(usual, short_steps_);
    for (std::size_t agent = 0; agent < result_.spec.agents.size(); ++agent) {
      const ActionSpace& space = result_.spec.agents[agent].action;
      const std::int64_t parts = std::min<std::int64_t>(action_elements(space), 64);
      std::string without;
      for (std::int64_t part = 0; part < parts; ++part) {
        Play varied = begin({.varied = ActionPart{.agent = agent, .part = static_cast<std::size_t>(part)}});
        if (!first_difference(trace, traced(varied, short_steps_)))
          without += concat(without.empty() ? "" : ", ", part);
      }
      if (without.empty()) continue;
      add(Weight::kWarning, "no-effect",
          parts == 1 ? std::string("the action") : concat("element ", without, " of the action"),
          " has no effect on observations, rewards or ends in ", short_steps_, " steps");
    }
  }

  void play_ends() {
    for (const double end : {0.0, 1.0}) {
      Play play = begin({.end = end});
      for (std::int64_t step = 0; step < short_steps_; ++step) play.step();
    }
  }

  // Where a group says that it can: goes on after a save, and compares with a new group that loads it.
  void save_and_load() {
    Play first = begin();
    if (!first.group().can_save()) {
      add(Weight::kAdvice, "save",
          "it has no save() and load(): a resumed run begins new episodes, and its numbers are "
          "others than those of a run that was not stopped");
      return;
    }
    if (!deterministic_) return;
    for (std::int64_t step = 0; step < short_steps_ / 2 + 7; ++step) first.step();
    const std::vector<std::byte> state = first.group().save();
    // Both go on with the play's first actions.
    first.restart_actions();
    const Trace trace = traced(first, short_steps_);
    Play second = begin();
    second.load(state);
    if (const auto step = first_difference(trace, traced(second, short_steps_))) {
      add(Weight::kFault, "save", "a new group that loads a saved state differs ",
          *step == 0 ? "at once" : concat("at step ", *step),
          " from the one that was saved: save() leaves something out, or load() does not bring it back");
    }
  }

  // The same play once more, while one of its environments is drawn after each step.
  void compare_drawn() {
    Play play = begin();
    if (!play.group().can_render() || !deterministic_) return;
    Play undrawn = begin();
    const Trace trace = traced(undrawn, short_steps_);
    for (std::int64_t step = 1; step <= short_steps_; ++step) {
      play.step();
      Canvas canvas;
      play.group().render(0, canvas);
      if (canvas.shapes().empty()) {
        add(Weight::kWarning, "render", "render() draws nothing at step ", step);
        return;
      }
      if (play.digest(0) == trace[static_cast<std::size_t>(step)][0]) continue;
      add(Weight::kFault, "render", "an environment that is drawn differs at step ", step,
          " from one that is not: render() changes its state, or draws random numbers");
      return;
    }
  }

  void compare_surroundings(const Surroundings& before) {
    const Surroundings after;
    const auto changed = [&](const char* what) {
      add(Weight::kFault, "process", "it changed the process's ", what,
          ", which is not its own: everything else in the process is affected");
    };
    if (after.rounding != before.rounding) changed("rounding of numbers (fesetround)");
    if (after.locale != before.locale) changed("locale (setlocale)");
    if (after.folder != before.folder) changed("current folder (chdir)");
    if (after.open != before.open) changed("standard streams (close)");
    std::fesetround(before.rounding);
    std::setlocale(LC_ALL, before.locale.c_str());
    std::filesystem::current_path(before.folder);
  }

  const MakeGroup make_;
  const EnvCheckOptions options_;
  EnvCheck& result_;
  std::vector<std::uint64_t> seeds_;
  std::int64_t steps_ = 0, short_steps_ = 0;
  bool failed_ = false, deterministic_ = true;
};

}  // namespace

bool EnvCheck::has(Weight weight) const {
  return std::ranges::any_of(findings, [weight](const Finding& finding) { return finding.weight == weight; });
}

EnvCheck check_env(const EnvRegistry& environments, std::string_view id, const EnvCheckOptions& options) {
  const MakeGroup make = maker_of(environments, id);
  const MultiAgentSpec spec = make(1)->spec();
  EnvCheck result{
      .spec = spec, .findings = {}, .observed = Observed(spec, static_cast<std::size_t>(options.environments))};
  judge_spec(spec, result.findings);
  Check(make, options, result).run();
  judge_observed(result.observed, spec, result.findings);
  std::ranges::stable_sort(result.findings, {}, &Finding::weight);
  return result;
}

}  // namespace tandem::rl

#include "tandem/rl/env/simulator_group.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "tandem/base/check.h"
#include "tandem/rl/env/steps_by_row.h"

namespace tandem::rl {
namespace {

// Throws ConfigError where a simulator lacks a member that its spec needs, or has a mask that its spec does not
// announce, or its spec lists what it cannot tell.
void check_members(const Spec& spec, const AnySimulator::Has& has) {
  const std::string subject = concat("environment '", spec.id, "': ");
  std::vector<std::string> faults;
  const bool is_box = std::holds_alternative<Box>(spec.action);
  if (!(is_box ? has.numbers : has.choices)) {
    faults.push_back(concat(subject, "its actions are ", describe(spec.action),
                            ", so step() must take std::span<const ", is_box ? "float>" : "std::int64_t>",
                            " and const StepOfAll&"));
  }
  if (spec.has_action_mask && !has.masks)
    faults.push_back(subject +
                     "has_action_mask is set, so it needs action_mask(std::size_t, std::span<std::uint8_t>) "
                     "const");
  if (!spec.has_action_mask && has.masks)
    faults.push_back(subject + "it has action_mask(), so its spec must set has_action_mask");
  if (!spec.metrics.empty())
    faults.push_back(subject +
                     "its spec lists metrics, which a simulator of many environments cannot tell so far; an " +
                     "EnvGroup of your own can (EnvArrays::metrics)");
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

std::unique_ptr<AnySimulator> made(int count, const MakeSimulator& make) {
  if (count < 1) throw ConfigError(concat("a group of ", count, " environments; it needs at least 1"));
  try {
    return make(count);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw EnvError(concat("making a simulator of ", count, " environments failed: ", error.what()));
  }
}

// A step: the object moves all and writes all rows; what it wrote is checked in whole arrays; the step is counted; and
// where an episode ended, its last row is kept and the next one begins.
class SimulatorGroup final : public EnvGroup, public StepsByRow {
 public:
  SimulatorGroup(int count, const MakeSimulator& make)
      : sim_(made(count, make)),
        has_(sim_->has()),
        random_(static_cast<std::size_t>(count)),
        elapsed_(random_.size()),
        spec_(spec_of(*sim_, random_.size())) {
    check_spec(spec_);
    check_members(spec_, has_);
  }

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(elapsed_.size()); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override {
    check_arrays(out);
    TANDEM_CHECK(seeds.size() == elapsed_.size(), spec_.id, ": ", seeds.size(), " seeds for ", elapsed_.size());
    for (std::size_t e = 0; e < elapsed_.size(); ++e) {
      random_[e] = NumpyGenerator(seeds[e]);
      start(e, out);
    }
  }
  void step(const EnvActions& actions, const EnvArrays& out) override { step_all(actions, out, RowStep::kStep); }
  // The object steps all of its environments at once, so none can rest beside others.
  [[nodiscard]] bool can_step_rows() const override { return elapsed_.size() == 1; }
  void step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) override {
    TANDEM_CHECK(rows.size() == 1 && can_step_rows(), spec_.id, ": ", rows.size(), " rows for ", elapsed_.size());
    if (rows[0] != RowStep::kRest) step_all(actions, out, rows[0]);
  }
  void set_progress(double share) override { sim_->set_progress(share); }
  [[nodiscard]] bool can_save() const override { return has_.saves; }
  // The bytes are those of EnvGroupOf.
  [[nodiscard]] std::vector<std::byte> save() const override {
    if (!has_.saves) throw EnvError(concat(spec_.id, ": its states cannot be saved: it has no save() and load()"));
    StateWriter writer;
    writer.put_group(sim_->state_format(), spec_.id, elapsed_.size());
    for (std::size_t e = 0; e < elapsed_.size(); ++e) {
      EpisodeState{.random = random_[e], .elapsed = elapsed_[e]}.put(writer);
      sim_->save_options(e, writer);
      guarded(e, EnvCall::kSave, [&] { sim_->save(e, writer); });
    }
    return writer.take();
  }
  void load(std::span<const std::byte> state, const EnvArrays& out) override {
    if (!has_.saves) throw EnvError(concat(spec_.id, ": its states cannot be loaded: it has no save() and load()"));
    check_arrays(out);
    StateReader reader(state, concat("environment group '", spec_.id, "'"));
    reader.expect_group(sim_->state_format(), spec_.id, elapsed_.size());
    for (std::size_t e = 0; e < elapsed_.size(); ++e) {
      start(e, out);  // what it draws does not matter: the generator's saved state takes its place
      EpisodeState episode;
      episode.get(reader, e, spec_.max_episode_steps);
      random_[e] = episode.random;
      elapsed_[e] = episode.elapsed;
      guarded<CheckpointError>(e, EnvCall::kLoad, [&] { sim_->load_options(e, reader); });
      const std::span<const std::byte> bytes = reader.get_bytes();
      guarded<CheckpointError>(e, EnvCall::kLoad, [&] {
        sim_->load(e, bytes, ObservationRow(spec_, out.observation, e));
        check_row(e, out);
        write_mask(e, out);
      });
    }
    reader.expect_end();
  }
  [[nodiscard]] bool can_render() const override { return has_.draws; }
  void render(int env, Canvas& canvas) const override {
    if (!has_.draws) return EnvGroup::render(env, canvas);
    const auto e = static_cast<std::size_t>(env);
    TANDEM_CHECK(env >= 0 && e < elapsed_.size(), env);
    guarded(e, EnvCall::kRender, [&] { sim_->render(e, canvas); });
  }
  void watch_ends(std::function<void(int env)> at_end) override { at_end_ = std::move(at_end); }

 private:
  // A spec() that is not static may depend on options that stay as they are.
  static Spec spec_of(AnySimulator& sim, std::size_t count) {
    guard_call<EnvError>([] { return std::string("a simulator of many environments, in configure(): "); },
                         [&] {
                           for (std::size_t e = 0; e < count; ++e) sim.begin(e);
                         });
    return sim.spec();
  }

  template <typename Failure = EnvError, typename Action>
  void guarded(std::size_t e, EnvCall call, Action&& action) const {
    const auto place = [&] { return describe_call(spec_, call, e, elapsed_.size(), elapsed_[e]); };
    guard_call<Failure>(place, std::forward<Action>(action));
  }

  // Starts an episode of environment e and writes its first observation and mask.
  void start(std::size_t e, const EnvArrays& out) {
    elapsed_[e] = 0;
    guarded(e, EnvCall::kReset, [&] {
      sim_->reset(e, random_[e], ObservationRow(spec_, out.observation, e));
      check_row(e, out);
      write_mask(e, out);
    });
  }

  void step_all(const EnvActions& actions, const EnvArrays& out, RowStep kind) {
    check_arrays(out);
    TANDEM_CHECK(out.reward != nullptr && out.terminated != nullptr && out.truncated != nullptr, spec_.id);
    check_actions(spec_, elapsed_.size(), actions);
    move_all(actions, out);
    check_step(out);
    if (kind == RowStep::kLastStep) std::fill_n(out.truncated, elapsed_.size(), std::uint8_t{1});
    if (count_step(out) || has_.masks) finish_step(out);
  }

  void move_all(const EnvActions& actions, const EnvArrays& out) {
    const std::size_t rows = elapsed_.size();
    const StepOfAll results{.observation = ObservationRows(spec_, out.observation, 0, rows),
                            .reward = {out.reward, rows},
                            .terminated = {out.terminated, rows},
                            .truncated = {out.truncated, rows}};
    std::ranges::fill(results.reward, 0.0);
    std::ranges::fill(results.terminated, std::uint8_t{0});
    std::ranges::fill(results.truncated, std::uint8_t{0});
    const std::size_t elements = rows * static_cast<std::size_t>(action_elements(spec_.action));
    guard_call<EnvError>([&] { return concat(spec_.id, ": in step() of all ", rows, " environments: "); },
                         [&] { sim_->step(actions, elements, results); });
  }

  // Rewards and float32 observations are finite, int64 ones are within their bounds.
  void check_step(const EnvArrays& out) const {
    const std::size_t rows = elapsed_.size();
    const auto fail = [&](std::size_t env, const std::string& what) {
      throw EnvError(describe_call(spec_, EnvCall::kStep, env, rows, elapsed_[env]) + what);
    };
    if (const auto at = first_not_finite(std::span<const double>(out.reward, rows)))
      fail(*at, concat("its reward is ", out.reward[*at]));
    for (std::size_t l = 0; l < spec_.observation.size(); ++l) {
      const Leaf& leaf = spec_.observation[l];
      if (const auto at = first_wrong_element(leaf, out.observation[l], rows))
        fail(*at / static_cast<std::size_t>(leaf.count()), describe_element(leaf, out.observation[l], *at));
    }
  }
  // The same of one observation, without its place.
  void check_row(std::size_t e, const EnvArrays& out) const {
    for (std::size_t l = 0; l < spec_.observation.size(); ++l) {
      const Leaf& leaf = spec_.observation[l];
      const std::byte* memory = out.observation[l] + e * leaf.bytes();
      if (const auto at = first_wrong_element(leaf, memory, 1)) throw EnvError(describe_element(leaf, memory, *at));
    }
  }

  // Sets ends to 0 or 1, counts the step and applies the time limit. True when an episode ended. The flags are bytes,
  // which may alias all else, so pointers of our own keep the loop free for vector instructions.
  bool count_step(const EnvArrays& out) {
    const std::int32_t limit =
        spec_.max_episode_steps > 0 ? spec_.max_episode_steps : std::numeric_limits<std::int32_t>::max();
    std::int32_t* const elapsed = elapsed_.data();
    std::uint8_t *const terminated = out.terminated, *const truncated = out.truncated;
    const std::size_t rows = elapsed_.size();
    std::uint8_t any = 0;
    for (std::size_t e = 0; e < rows; ++e) {
      const std::int32_t steps = elapsed[e] + 1;
      elapsed[e] = steps;
      terminated[e] = terminated[e] != 0;
      truncated[e] = static_cast<std::uint8_t>(static_cast<int>(truncated[e] != 0) | static_cast<int>(steps >= limit));
      any = static_cast<std::uint8_t>(any | terminated[e] | truncated[e]);
    }
    return any != 0;
  }

  // New episodes, and masks of the environments that go on.
  void finish_step(const EnvArrays& out) {
    for (std::size_t e = 0; e < elapsed_.size(); ++e) {
      if ((out.terminated[e] | out.truncated[e]) != 0) {
        if (at_end_) at_end_(static_cast<int>(e));
        keep_final(e, out);
        start(e, out);
      } else if (has_.masks) {
        guarded(e, EnvCall::kStep, [&] { write_mask(e, out); });
      }
    }
  }
  void keep_final(std::size_t e, const EnvArrays& out) const {
    for (std::size_t l = 0; l < out.final_observation.size(); ++l) {
      const std::size_t bytes = spec_.observation[l].bytes();
      std::memcpy(out.final_observation[l] + e * bytes, out.observation[l] + e * bytes, bytes);
    }
  }
  void write_mask(std::size_t e, const EnvArrays& out) const {
    if (!has_.masks) return;
    const auto options = static_cast<std::size_t>(mask_elements(spec_.action));
    const std::span<std::uint8_t> allowed(out.action_mask + e * options, options);
    sim_->action_mask(e, allowed);
    check_mask(spec_.action, allowed);
  }

  // The caller's arrays must be there; a fault is a defect of Tandem.
  void check_arrays(const EnvArrays& out) const {
    const std::size_t leaves = spec_.observation.size();
    TANDEM_CHECK(out.observation.size() == leaves, spec_.id, ": ", out.observation.size(), " arrays");
    TANDEM_CHECK(out.final_observation.empty() || out.final_observation.size() == leaves, spec_.id);
    TANDEM_CHECK(!spec_.has_action_mask || out.action_mask != nullptr, spec_.id);
  }

  const std::unique_ptr<AnySimulator> sim_;
  const AnySimulator::Has has_;
  // By environment. Generators never move: the simulator may keep their addresses.
  std::vector<NumpyGenerator> random_;
  std::vector<std::int32_t> elapsed_;  // steps of the episode
  const Spec spec_;
  std::function<void(int env)> at_end_;  // of watch_ends()
};

}  // namespace

void ObservationRows::check(std::size_t leaf, ElementType type, std::size_t bytes) const {
  if (leaf >= spec_.observation.size())
    throw EnvError(concat("it writes to observation leaf ", leaf, "; its spec has ", spec_.observation.size()));
  const Leaf& its = spec_.observation[leaf];
  if (its.type != type || size_of(its.type) != bytes)
    throw EnvError(concat("it writes to observation leaf '", its.name, "' as ", name_of(type), " of ", bytes,
                          " bytes; its spec says ", describe(its)));
}

std::unique_ptr<EnvGroup> make_simulator_group(int count, const MakeSimulator& make) {
  return std::make_unique<SimulatorGroup>(count, make);
}

}  // namespace tandem::rl

// The program `tandem` with an environment whose steps take time: UnevenCartPole-v1 is CartPole-v1 that sleeps in every
// step of a group. The variable UNEVEN says how long: "slow:1:4" is 1 ms, and 4 times that on the last rank;
// "pareto:1:1.5" draws each step from a Pareto distribution of mean 1 ms and shape 1.5. For bench/suite/dd_ppo.py.
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "tandem/app/program.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem {
namespace {

template <typename Number>
Number number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  throw ConfigError(concat("'", text, "' where a number is expected: UNEVEN is slow:MS:FACTOR or pareto:MS:SHAPE"));
}

int variable(const char* name, int otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  return text == nullptr ? otherwise : number_in<int>(text);
}

// Milliseconds of a group's step.
struct Cost {
  bool is_pareto = false;
  double mean = 0, shape = 0;

  static Cost of_environment() {
    const char* variable_text = std::getenv("UNEVEN");  // NOLINT(concurrency-mt-unsafe): likewise
    Cost cost;
    if (variable_text == nullptr) return cost;
    const std::string_view text = variable_text;
    const std::size_t first = text.find(':'), second = text.find(':', first + 1);
    const std::string_view kind = text.substr(0, first);
    if ((kind != "pareto" && kind != "slow") || second == std::string_view::npos)
      throw ConfigError(concat("UNEVEN=", text, ": expected slow:MS:FACTOR or pareto:MS:SHAPE"));
    cost.is_pareto = kind == "pareto";
    cost.mean = number_in<double>(text.substr(first + 1, second - first - 1));
    cost.shape = number_in<double>(text.substr(second + 1));
    if (!cost.is_pareto && variable("RANK", 0) + 1 == variable("WORLD_SIZE", 1)) cost.mean *= cost.shape;
    return cost;
  }

  [[nodiscard]] double draw(Philox& random) const {
    if (!is_pareto) return mean;
    const double least = mean * (shape - 1) / shape;
    return least * std::pow(1 - random.uniform_double(), -1 / shape);
  }
};

class Sleeping final : public rl::EnvGroup {
 public:
  Sleeping(std::unique_ptr<rl::EnvGroup> group, rl::Spec spec) : group_(std::move(group)), spec_(std::move(spec)) {}
  [[nodiscard]] const rl::Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return group_->size(); }
  void reset(std::span<const std::uint64_t> seeds, const rl::EnvArrays& out) override {
    random_ = Philox(seeds.front(), 0);
    group_->reset(seeds, out);
  }
  void step(const rl::EnvActions& actions, const rl::EnvArrays& out) override {
    group_->step(actions, out);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(cost_.draw(random_)));
  }
  [[nodiscard]] bool can_save() const override { return false; }
  [[nodiscard]] std::vector<std::byte> save() const override { return group_->save(); }
  void load(std::span<const std::byte> state, const rl::EnvArrays& out) override { group_->load(state, out); }

 private:
  const std::unique_ptr<rl::EnvGroup> group_;
  const rl::Spec spec_;
  const Cost cost_ = Cost::of_environment();
  Philox random_{0, 0};
};

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::rl::EnvRegistry environments = tandem::rl::EnvRegistry::native();
  tandem::rl::Spec spec = environments.spec("CartPole-v1");
  spec.id = "UnevenCartPole-v1";
  environments.add({spec, [native = environments, spec](int count) -> std::unique_ptr<tandem::rl::EnvGroup> {
                      return std::make_unique<tandem::Sleeping>(native.make("CartPole-v1", count), spec);
                    }});
  return tandem::app::run_program(argc, argv, environments);
}

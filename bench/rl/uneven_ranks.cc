// The program `tandem` with an environment whose steps take time: UnevenCartPole-v1 is CartPole-v1 that sleeps in every
// step of a group. The variable UNEVEN says how long: "slow:1:4" is 1 ms, and 4 times that on the last rank;
// "pareto:1:1.5" draws each step from a Pareto distribution of mean 1 ms and shape 1.5. For bench/suite/dd_ppo.py.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tandem/app/program.h"
#include "tandem/base/philox.h"
#include "tandem/rl/env/env_registry.h"

namespace {

using namespace tandem;

int variable(const char* name, int otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  return text == nullptr ? otherwise : std::atoi(text);
}

// Milliseconds of a group's step.
struct Cost {
  bool is_pareto = false;
  double mean = 0, shape = 0;

  static Cost of_environment() {
    const char* text = std::getenv("UNEVEN");  // NOLINT(concurrency-mt-unsafe): likewise
    Cost cost;
    double last = 1;
    if (text == nullptr) return cost;
    if (std::sscanf(text, "pareto:%lf:%lf", &cost.mean, &last) == 2) {
      cost.is_pareto = true;
      cost.shape = last;
    } else if (std::sscanf(text, "slow:%lf:%lf", &cost.mean, &last) == 2) {
      if (variable("RANK", 0) + 1 == variable("WORLD_SIZE", 1)) cost.mean *= last;
    } else {
      std::fprintf(stderr, "UNEVEN=%s: expected slow:MS:FACTOR or pareto:MS:SHAPE\n", text);
      std::exit(2);
    }
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

int main(int argc, char** argv) {
  rl::EnvRegistry environments = rl::EnvRegistry::native();
  rl::Spec spec = environments.spec("CartPole-v1");
  spec.id = "UnevenCartPole-v1";
  environments.add({spec, [native = environments, spec](int count) -> std::unique_ptr<rl::EnvGroup> {
                      return std::make_unique<Sleeping>(native.make("CartPole-v1", count), spec);
                    }});
  return app::run_program(argc, argv, environments);
}

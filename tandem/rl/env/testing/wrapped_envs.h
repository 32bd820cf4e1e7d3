// Env groups of tests that do something around the steps of another one.
//
// Threads: single-thread, as every EnvGroup.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl::testing {

// All calls go to the inner group.
class WrappedEnvs : public EnvGroup {
 public:
  explicit WrappedEnvs(std::unique_ptr<EnvGroup> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const Spec& spec() const override { return inner_->spec(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override { inner_->reset(seeds, out); }
  void step(const EnvActions& actions, const EnvArrays& out) override { inner_->step(actions, out); }
  void set_progress(double share) override { inner_->set_progress(share); }
  [[nodiscard]] bool can_save() const override { return inner_->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override { return inner_->save(); }
  void load(std::span<const std::byte> state, const EnvArrays& out) override { inner_->load(state, out); }

 private:
  const std::unique_ptr<EnvGroup> inner_;
};

}  // namespace tandem::rl::testing

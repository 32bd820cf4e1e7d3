// rl/env/shown_elements.h: an env group that shows only some elements of what another one shows.
//
// Hiding velocities, say, turns a task that can be solved by looking once into one that needs memory. All else is the
// inner group's: actions, rewards, ends, seeds and saved states.
//
// Threads: single-thread, as every EnvGroup. Owns the inner group.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

class ShownElements final : public EnvGroup {
 public:
  /// Shows elements `shown` of the only leaf of `inner`, in that order, under the name `id`. Throws ConfigError when
  /// `inner` has several leaves or a leaf that is not one list of float32, or has no such element.
  ShownElements(std::unique_ptr<EnvGroup> inner, std::string id, std::vector<std::size_t> shown);

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override;
  void step(const EnvActions& actions, const EnvArrays& out) override;
  [[nodiscard]] bool can_save() const override { return inner_->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override { return inner_->save(); }
  void load(std::span<const std::byte> state, const EnvArrays& out) override;

 private:
  [[nodiscard]] EnvArrays inner_arrays(const EnvArrays& out) const;
  void show(const std::vector<std::byte*>& whole, std::size_t row, const std::vector<std::byte*>& out) const;
  void show_all(const EnvArrays& out) const;

  const std::unique_ptr<EnvGroup> inner_;
  const std::vector<std::size_t> shown_;
  const EnvBuffers whole_;  // the inner group's observations
  Spec spec_;
};

}  // namespace tandem::rl

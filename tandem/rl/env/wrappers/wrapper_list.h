// rl/env/wrappers/wrapper_list.h: wrappers as users write them, and the chain of them that is put around an
// environment.
//
//   frame_skip=4           a name and its value
//   frame_stack=4:zero     a word behind the value says how
//   resize=84x84@pixels    only the leaf `pixels` of an observation of several
//   flatten                no value
//
//   const WrapperChain chain(spec, {"grey", "resize=84", "frame_stack=4"});
//   std::unique_ptr<EnvGroup> group = chain.make(make_inner, 8);      // its spec is chain.spec()
//
// The first one is nearest to the environment. Texts have neither commas nor blanks, so that lists of them can be
// written anywhere.
// Threads: values; const members from several threads at once. Errors: ConfigError with all faults of all texts.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/env/wrappers/lone_envs.h"

namespace tandem::rl {

/// A wrapper as listings show it.
struct WrapperInfo {
  std::string name;
  /// What stands behind the name: "=N[:max]"; empty for none.
  std::string takes;
  std::string help;
};
/// All of them, in the order of their kinds.
[[nodiscard]] const std::vector<WrapperInfo>& known_wrappers();

/// Reads one text. Throws ConfigError beginning with the text: an unknown name with the nearest, a value out of its
/// bounds with these.
[[nodiscard]] EnvWrapper read_wrapper(const std::string& text);

/// Wrappers around one environment.
class WrapperChain {
 public:
  /// `inner`: the environment's spec. Throws ConfigError with the faults of all texts, or else with the first wrapper
  /// that does not fit what is within it.
  WrapperChain(const Spec& inner, const std::vector<std::string>& texts);

  /// The environment's own.
  [[nodiscard]] const Spec& inner_spec() const { return inner_spec_; }
  /// What wrapped groups show and take.
  [[nodiscard]] const Spec& spec() const { return spec_; }
  /// The stacks of frames among what they show. Those that the environment itself makes are not known.
  [[nodiscard]] const FrameStacks& frame_stacks() const { return stacks_; }
  /// The text of the first wrapper that needs an inner group that steps by rows; empty for none.
  [[nodiscard]] const std::string& first_by_row() const { return first_by_row_; }
  /// A group of so many environments. Throws what `make_inner` throws.
  [[nodiscard]] std::unique_ptr<EnvGroup> make(const MakeEnvGroup& make_inner, int count) const;

 private:
  std::vector<EnvWrapper> wrappers_;
  Spec inner_spec_, spec_;
  FrameStacks stacks_;
  std::string first_by_row_;
};

}  // namespace tandem::rl

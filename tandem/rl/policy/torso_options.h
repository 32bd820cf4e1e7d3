// rl/policy/torso_options.h: which convolutions a policy has in front of its hidden layers; torso.h says what they are.
//
// This file is apart from torso.h because a configuration names these options, and is compiled without LibTorch.
#pragma once
#include <cstdint>
#include <vector>

namespace tandem::rl {

enum class Torso {
  // kNatureCnn for images that are large enough for it, kResidual for smaller ones, kNone where there are no images.
  kAuto,
  // Images are flattened, as other leaves.
  kNone,
  kNatureCnn,
  kResidual,
};

struct TorsoOptions {
  Torso kind = Torso::kAuto;
  /// The channels of kResidual's sections, whose number they decide as well.
  std::vector<std::int64_t> channels = {16, 32, 32};
  /// Residual blocks of each section.
  std::int64_t blocks = 2;
};

}  // namespace tandem::rl

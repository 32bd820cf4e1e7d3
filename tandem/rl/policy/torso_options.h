// rl/policy/torso_options.h: which convolutions a policy has in front of its hidden layers; torso.h says what they are.
#pragma once
#include <cstdint>
#include <vector>

namespace tandem::rl {

enum class Torso {
  kAuto,  // kNatureCnn for images that are large enough for it, kResidual for smaller ones, kNone where there are none
  kNone,  // images are flattened, as other leaves
  kNatureCnn,
  kResidual,
};

struct TorsoOptions {
  Torso kind = Torso::kAuto;
  std::vector<std::int64_t> channels = {16, 32, 32};  // of kResidual's sections
  std::int64_t blocks = 2;                            // residual blocks of each section
};

}  // namespace tandem::rl

// rl/env/hill_car.h: the hill and the car that both mountain car environments have. Motor, arithmetic and rewards are
// theirs.
//
// Threads: single-thread, as every EnvGroup.
#pragma once
#include <utility>

#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl::hill {

inline constexpr double kLeftEnd = -1.2;
inline constexpr double kRightEnd = 0.6;
inline constexpr double kFastest = 0.07;

enum Variable { kPosition, kVelocity, kVariables };

inline Leaf observation() { return bounded_observation({kLeftEnd, -kFastest}, {kRightEnd, kFastest}); }

class Car : public ClassicGroup {
 protected:
  Car(Spec spec, int count) : ClassicGroup(std::move(spec), count, kVariables) {}

  void start(int env, NumpyGenerator& random) final {
    column(kPosition)[env] = random.uniform(-0.6, -0.4);
    column(kVelocity)[env] = 0.0;
  }

  void observe(int env, float* row) const final {
    row[kPosition] = static_cast<float>(column(kPosition)[env]);
    row[kVelocity] = static_cast<float>(column(kVelocity)[env]);
  }
};

}  // namespace tandem::rl::hill

#include "coin.h"

struct Loaded : Coin {
  static tandem::rl::Spec spec() {
    tandem::rl::Spec spec = Coin::spec();
    spec.id = "Loaded-v0";
    spec.max_episode_steps = -1;
    return spec;
  }
};

TANDEM_ENV_PLUGIN(Coin, Loaded);

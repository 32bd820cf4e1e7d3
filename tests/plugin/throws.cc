#include "coin.h"

struct Lost : Coin {
  static tandem::rl::Spec spec() { throw std::runtime_error("no licence for the simulator"); }
};

TANDEM_ENV_PLUGIN(Lost);

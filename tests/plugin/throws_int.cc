#include "coin.h"

struct Lost : Coin {
  static tandem::rl::Spec spec() { throw 7; }
};

TANDEM_ENV_PLUGIN(Lost);

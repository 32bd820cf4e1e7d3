// Environments of two kinds: carts that are stepped all at once and draw themselves, and a coin.
#include "coin.h"
#include "examples/group_env/parking.h"
TANDEM_ENV_PLUGIN(Parking, Coin);

#include "coin.h"
TANDEM_ENV_PLUGIN(Coin, Dice);

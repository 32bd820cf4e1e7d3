// The class is in parking.h, so that other programs can use it, too; the plugin is this line.
#include "parking.h"

TANDEM_ENV_PLUGIN(Parking);

#include "tandem/model/autocast.h"

#include <ATen/autocast_mode.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {

// The state of the device is remembered and put back, so scopes nest; the cache of casts ends with the outermost one.
Autocast::Autocast(const AutocastOptions& options)
    : device_(options.device),
      enabled_before_(at::autocast::is_autocast_enabled(options.device)),
      dtype_before_(at::autocast::get_autocast_dtype(options.device)) {
  if (options.dtype != c10::ScalarType::BFloat16 && options.dtype != c10::ScalarType::Half)
    throw ConfigError(concat("autocast to ", options.dtype, "; use BFloat16 or Half"));
  at::autocast::set_autocast_dtype(device_, options.dtype);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

}  // namespace tandem::model

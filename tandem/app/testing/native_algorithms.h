// app/testing/native_algorithms.h: registers Tandem's algorithms before the first test of a program that includes it.
#pragma once
#include "tandem/app/algo/algorithms.h"

namespace tandem::app {

inline const bool kHasNativeAlgorithms = (register_native_algorithms(), true);

}  // namespace tandem::app

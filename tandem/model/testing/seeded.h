// model/testing/seeded.h: random numbers that are the same in every run of a test.
#pragma once
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>

namespace tandem::model {

/// A generator of its own.
[[nodiscard]] inline at::Generator seeded(std::uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

}  // namespace tandem::model

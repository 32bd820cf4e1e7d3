// python/src/memory.h: arrays of Python's, whose memory the core reads and writes in place.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "tandem/base/check.h"

namespace tandem::python {

/// Dense, in row-major order, in the host's memory. The Python side has seen to type and shape.
using Array = nanobind::ndarray<nanobind::c_contig, nanobind::device::cpu>;
/// The same of arrays that are only read, and may be read-only.
using ReadArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

/// The memory of an array that has just so many bytes; InvariantError otherwise.
template <typename Element>
[[nodiscard]] Element* memory_of(const Array& array, std::size_t bytes) {
  TANDEM_CHECK(array.nbytes() == bytes, "an array of ", array.nbytes(), " bytes, and ", bytes, " are due");
  return static_cast<Element*>(array.data());
}
template <typename Element>
[[nodiscard]] const Element* memory_of(const ReadArray& array, std::size_t bytes) {
  TANDEM_CHECK(array.nbytes() == bytes, "an array of ", array.nbytes(), " bytes, and ", bytes, " are due");
  return static_cast<const Element*>(array.data());
}

}  // namespace tandem::python

// model/orthonormal_rows.h: rows of a matrix made orthonormal. Internal to init_orthogonal(). The loops have a source
// of their own, without LibTorch, which builds with sanitizers optimise: a network for images takes seconds of them.
//
// Threads: any; works on the caller's memory alone.
#pragma once
#include <cstddef>
#include <span>

namespace tandem::model {

/// Modified Gram-Schmidt over `count` rows of `length` >= count numbers, in float64. A row that loses most of its
/// length is projected a second time, which is enough (Giraud, Langou, Rozloznik 2005). Gaussian rows give the uniform
/// distribution. Throws InvariantError for rows that depend on each other.
void orthonormalise_rows(std::span<double> rows, std::size_t count, std::size_t length);

}  // namespace tandem::model

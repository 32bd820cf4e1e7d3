// rl/policy/export/header_kernels.h: the loops of an exported C++ header, as its text.
//
// They are the portable loops of mlp_kernels.inc, block_kernels.inc and cell_kernels.inc once more, in plain C++11 and
// a number at a time: each number is the result of the same operations in the same order, so it has the same bits, and
// compilers may turn the loops into vectors. header_export_test.cc and tests/parity compare the two. Whoever changes
// the one changes the other.
#pragma once

namespace tandem::rl {

/// The includes and what forbids a compiler to round otherwise; then, for within a namespace, the functions; then what
/// ends the first part. The text of a header is these in this order, with its own code behind the second.
extern const char* const kHeaderBegin;
extern const char* const kHeaderFunctions;
extern const char* const kHeaderCells;
extern const char* const kHeaderReturns;
extern const char* const kHeaderEnd;

}  // namespace tandem::rl

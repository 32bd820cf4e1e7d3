// base/huge_pages.h: large memory in pages of 2 MiB, of which the processor's table of pages needs few.
//
// Loops that go all over some megabytes, or in many strides of a few kilobytes, miss that table with pages of 4 KiB.
// Linux gives huge pages where it is asked to, before the memory is first written to; where it has none, or does not
// know the question, the memory is as good as before.
//
// Threads: all.
#pragma once
#include <cstddef>

namespace tandem {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// Bytes from which on huge pages are worth asking for: less wastes up to a page at each end.
inline constexpr std::size_t kHugeMemory = 2 * kHugePage;

/// Asks for huge pages for `bytes` from `memory` on, unless there are fewer than kHugeMemory.
void prefer_huge_pages(void* memory, std::size_t bytes);

}  // namespace tandem

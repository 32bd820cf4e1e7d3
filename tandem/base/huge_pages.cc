#include "tandem/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace tandem {

// The call wants whole pages, so what lies before the first one is left out. Its refusal changes nothing.
void prefer_huge_pages(void* memory, std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  if (bytes < kHugeMemory) return;
  constexpr std::uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), first = (begin + kPage - 1) / kPage * kPage;
  ::madvise(reinterpret_cast<void*>(first), bytes - (first - begin), MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace tandem

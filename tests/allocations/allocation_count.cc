#include "allocation_count.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <sstream>
#include <string_view>
#include <vector>

namespace tandem::testing {
namespace {

constexpr std::size_t kFrames = 24, kPlaces = 256;

struct Part {
  std::uintptr_t begin = 0, end = 0;
  [[nodiscard]] bool has(std::uintptr_t address) const { return address >= begin && address < end; }
};

// Where the code of the process lies. Read once, before anything is counted.
struct Code {
  Part program, own;  // own: of these operators
  std::uintptr_t base = 0;
  std::array<Part, 8> passed{};  // the C++ library and the C library
  std::size_t passed_count = 0;
};
Code code;

int look_at(dl_phdr_info* info, std::size_t, void*) {
  const std::string_view name = info->dlpi_name;
  const bool is_program = name.empty() && code.program.end == 0;
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const bool is_passed = has("libstdc++") || has("libc.so") || has("libgcc_s");
  if (!is_program && !is_passed) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const Part part{.begin = info->dlpi_addr + header.p_vaddr,
                    .end = info->dlpi_addr + header.p_vaddr + header.p_memsz};
    if (is_program) {
      code.program = part;
      code.base = info->dlpi_addr;
    } else if (code.passed_count < code.passed.size()) {
      code.passed[code.passed_count++] = part;
    }
  }
  return 0;
}

struct Stack {
  std::array<std::uintptr_t, kFrames> frames{};
  std::size_t count = 0;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* into) {
  auto& stack = *static_cast<Stack*>(into);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || stack.count == kFrames) return _URC_END_OF_STACK;
  stack.frames[stack.count++] = address - 1;  // within the call, not behind it
  return _URC_NO_REASON;
}

// What LibTorch could call in the program has a name that dladdr() finds.
bool is_copy_of_others(std::uintptr_t address) {
  Dl_info info;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the unwinder gives a number, which is never read from
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_sname == nullptr) return false;
  return std::strstr(info.dli_sname, "6tandem") == nullptr && std::strcmp(info.dli_sname, "main") != 0;
}

// The first frame is that of count(), the second that of the operator.
bool is_ours(const Stack& stack) {
  for (std::size_t i = 2; i < stack.count; ++i) {
    const std::uintptr_t address = stack.frames[i];
    if (std::any_of(code.passed.begin(), code.passed.begin() + static_cast<std::ptrdiff_t>(code.passed_count),
                    [address](const Part& part) { return part.has(address); }))
      continue;
    if (!code.program.has(address)) return false;
    if (!is_copy_of_others(address)) return true;
  }
  return false;
}

struct Place {
  Stack stack;
  std::int64_t times = 0;
};
std::array<Place, kPlaces> places;
std::size_t place_count = 0;
std::mutex places_mutex;
std::atomic<bool> counting{false};
std::atomic<std::int64_t> our_calls{0}, other_calls{0};
thread_local bool inside = false;

void keep(const Stack& stack) {
  const std::lock_guard lock(places_mutex);
  for (std::size_t i = 0; i < place_count; ++i) {
    if (places[i].stack.count != stack.count || places[i].stack.frames != stack.frames) continue;
    ++places[i].times;
    return;
  }
  if (place_count < kPlaces) places[place_count++] = {.stack = stack, .times = 1};
}

__attribute__((noinline)) void count() {
  if (!counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  Stack stack;
  _Unwind_Backtrace(note_frame, &stack);
  if (is_ours(stack)) {
    our_calls.fetch_add(1);
    keep(stack);
  } else {
    other_calls.fetch_add(1);
  }
  inside = false;
}

__attribute__((noinline)) void* allocate(std::size_t size, std::size_t alignment) {
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(std::max<std::size_t>(size, 1))
                           : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

AllocationCount::AllocationCount() {
  Stack stack;
  _Unwind_Backtrace(note_frame, &stack);  // what it needs it may allocate now
  if (code.program.end == 0) dl_iterate_phdr(look_at, nullptr);
  our_calls = other_calls = 0;
  place_count = 0;
  counting = true;
}

AllocationCount::~AllocationCount() { stop(); }

void AllocationCount::stop() { counting = false; }
std::int64_t AllocationCount::ours() const { return our_calls; }
std::int64_t AllocationCount::others() const { return other_calls; }

std::string AllocationCount::where() const {
  const std::lock_guard lock(places_mutex);
  std::vector<Place> all(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(place_count));
  std::ranges::stable_sort(all, [](const Place& a, const Place& b) { return a.times > b.times; });
  std::ostringstream text;
  for (const Place& place : all) {
    text << place.times << " times at" << std::hex;
    for (std::size_t i = 2; i < place.stack.count; ++i) {
      if (code.program.has(place.stack.frames[i])) text << " 0x" << place.stack.frames[i] - code.base;
    }
    text << std::dec << '\n';
  }
  return text.str();
}

}  // namespace tandem::testing

// Only these are replaced: the standard library's others come down to them.
void* operator new(std::size_t size) {
  tandem::testing::count();
  return tandem::testing::allocate(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  tandem::testing::count();
  return tandem::testing::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

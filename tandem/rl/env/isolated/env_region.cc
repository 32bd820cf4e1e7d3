#include "tandem/rl/env/isolated/env_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

[[noreturn]] void refuse_region(const char* what, int error_number) {
  throw RunError(concat("shared memory with the worker process of an env group: ", what, ": ",
                        std::system_category().message(error_number),
                        "; train without isolate_envs, or see ulimit -n, -v and -f"));
}

Descriptor sealed_memory(std::uint64_t bytes) {
  Descriptor memory(::memfd_create("tandem-envs", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.is_open()) refuse_region("memfd_create", errno);
  // Takes the pages, too, so that a shortage of memory is an error and not a SIGBUS.
  const int fault = ::posix_fallocate(memory.get(), 0, static_cast<off_t>(bytes));
  if (fault != 0) refuse_region("posix_fallocate", fault);
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    refuse_region("F_ADD_SEALS", errno);
  return memory;
}

}  // namespace

EnvRegion::EnvRegion(Descriptor memory, std::uint64_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
  void* const base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (base == MAP_FAILED) refuse_region("mmap", errno);
  base_ = static_cast<std::byte*>(base);
}

EnvRegion::EnvRegion(const RegionLayout& layout) : EnvRegion(sealed_memory(layout.table.bytes), layout.table.bytes) {
  new (base_) RegionHeader{};  // fresh pages are zero, and so are the numbers
  header().table = layout.table;
  std::memcpy(at(sizeof(RegionHeader)), layout.leaves.data(), layout.leaves.size() * sizeof(LeafEntry));
}

EnvRegion EnvRegion::open(int descriptor) {
  struct stat status {};
  const auto none = [] {
    return ConfigError("this command is started by a training with isolate_envs, and not by hand");
  };
  if (::fstat(descriptor, &status) != 0) throw none();
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes < sizeof(RegionHeader) || bytes > kMostRegionBytes) throw none();
  EnvRegion region(Descriptor(descriptor), bytes);
  const RegionTable expected;
  const RegionTable& found = region.header().table;
  if (found.magic != expected.magic || found.bytes != bytes) throw none();
  if (found.version != expected.version)
    throw ConfigError(concat("the training speaks version ", found.version, " of the memory of env groups, and this ",
                             "worker version ", expected.version, "; start both from the same build"));
  return region;
}

EnvRegion::~EnvRegion() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

EnvRegion::EnvRegion(EnvRegion&& other) noexcept
    : memory_(std::move(other.memory_)), bytes_(other.bytes_), base_(std::exchange(other.base_, nullptr)) {}

EnvArrays EnvRegion::arrays(const RegionLayout& layout) const {
  const RegionTable& table = layout.table;
  EnvArrays arrays;
  for (const LeafEntry& leaf : layout.leaves) {
    arrays.observation.push_back(at(leaf.observation));
    arrays.final_observation.push_back(at(leaf.final_observation));
  }
  if (table.mask_elements > 0) arrays.action_mask = array<std::uint8_t>(table.mask);
  arrays.reward = array<double>(table.reward);
  arrays.terminated = array<std::uint8_t>(table.terminated);
  arrays.truncated = array<std::uint8_t>(table.truncated);
  arrays.metrics = array<double>(table.metric_values);
  return arrays;
}

EnvActions EnvRegion::actions(const RegionLayout& layout) const {
  if (layout.table.action_type == number_of(ElementType::kFloat32)) return {.box = array<float>(layout.table.actions)};
  return {.discrete = array<std::int64_t>(layout.table.actions)};
}

bool EnvRegion::has(const RegionLayout& layout) const {
  RegionTable its = header().table;
  its.spin_ns = layout.table.spin_ns;
  const std::size_t bytes = layout.leaves.size() * sizeof(LeafEntry);
  return its == layout.table && std::memcmp(at(sizeof(RegionHeader)), layout.leaves.data(), bytes) == 0;
}

}  // namespace tandem::rl

#include "tandem/shm/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/nameless_memory.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/control_groups.h"

namespace tandem::shm {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kMostAddresses = std::uint64_t{32} << 40;  // a process has 128 TiB

[[noreturn]] void refuse(const char* what, int error_number) {
  throw RunError(concat("shared memory of the host group: ", what, ": ", std::system_category().message(error_number),
                        "; see ulimit -n, -v and -f"));
}

std::uint64_t up_to(std::uint64_t bytes, std::uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::uint64_t control_bytes(int ranks) { return up_to(ControlBlock::bytes(ranks), kMiB); }

// The addresses that this process may give to one group: half of what its limit leaves, since its tensors and threads
// need some, too.
std::uint64_t addresses_for_a_group() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostAddresses;
  std::uint64_t pages = 0;  // that the process has mapped
  std::ifstream("/proc/self/statm") >> pages;
  const std::uint64_t mapped = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(kMostAddresses, (limit.rlim_cur - std::min(limit.rlim_cur, mapped)) / 2);
}

// The size of the region. An arena can never need more than the memory of the machine.
std::uint64_t bytes_for(int ranks) {
  const std::uint64_t each = addresses_for_a_group() / static_cast<std::uint64_t>(ranks);
  const std::uint64_t arena = std::clamp(each / kMiB * kMiB, kMiB, up_to(machine_memory(), kMiB));
  return control_bytes(ranks) + static_cast<std::uint64_t>(ranks) * arena;
}

// The kernel answers growth beyond the limit with the signal SIGXFSZ, so the limit is looked at first.
void check_file_limit(std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    throw RunError(concat("shared memory of the host group: the limit on file sizes (ulimit -f) is ", limit.rlim_cur,
                          " bytes, and it also holds for shared memory; raise it to unlimited"));
  }
}

// With seals nobody can cut the file short, so no mapped page can ever be missing. A file that is no memfd takes none
// (EPERM); nobody but the ranks has its descriptor.
Descriptor memory_of_region(std::uint64_t bytes) {
  Descriptor memory;
  try {
    memory = nameless_memory("tandem");
  } catch (const RunError&) {
    rethrow_with("shared memory of the host group: ");
  }
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) refuse("ftruncate", errno);
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 && errno != EPERM)
    refuse("seals", errno);
  return memory;
}

[[noreturn]] void fail_shortage(std::uint64_t bytes, std::uint64_t free) {
  throw RunError(
      concat("shared memory of the host group: ", bytes / kMiB, " MiB more are needed and ", free / kMiB,
             " MiB are free on this host or in this container; use a smaller model or fewer ranks, or raise "
             "the container's memory limit or, where memfd_create() is forbidden, the size of its /dev/shm"));
}

// --- memory that is free ---------------------------------------------------------------------------------------------

namespace fs = std::filesystem;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// Returns the number in a file; nothing where the file says "max" or does not exist.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// Returns the number behind `word` at the start of a line: "MemAvailable: 123 kB", "inactive_file 456".
std::optional<std::uint64_t> number_behind(const fs::path& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string first, rest; in >> first; std::getline(in, rest)) {
    std::uint64_t number = 0;
    if (first == word && in >> number) return number;
    in.clear();
  }
  return std::nullopt;
}

struct Names {
  const char *limit, *usage, *cache;
};

Names names_in(GroupVersion version) {
  if (version == GroupVersion::kOne) return {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
  return {"memory.max", "memory.current", "inactive_file"};
}

// The bytes that are left of the limit of one control group. Files that were only read once (inactive) can be dropped,
// so they count as free.
std::uint64_t free_in(const ControlGroup& group) {
  const Names names = names_in(group.version);
  const auto limit = number_in(group.folder / names.limit), usage = number_in(group.folder / names.usage);
  if (!limit || !usage) return kUnlimited;
  const std::uint64_t cache = number_behind(group.folder / "memory.stat", names.cache).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

}  // namespace

std::uint64_t free_memory(const fs::path& proc, const fs::path& cgroups) {
  std::uint64_t free = kUnlimited;
  if (const auto kib = number_behind(proc / "meminfo", "MemAvailable:")) free = *kib * 1024;
  const KernelFiles files{.proc = proc, .control_groups = cgroups};
  for (const ControlGroup& group : control_groups("memory", files)) free = std::min(free, free_in(group));
  return free;
}

// --- the region -----------------------------------------------------------------------------------------------------

Region::Region(Descriptor memory, std::uint64_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
  void* base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor(), 0);
  if (base == MAP_FAILED) refuse("mmap", errno);
  base_ = static_cast<std::byte*>(base);
}

Region::~Region() { ::munmap(base_, bytes_); }

// Memory as a file system has a size of its own in containers: 64 MiB with docker's defaults. A memfd has none.
std::uint64_t Region::room() const {
  struct statvfs status {};
  if (::fstatvfs(descriptor(), &status) != 0 || status.f_blocks == 0) return free_memory();
  return std::min<std::uint64_t>(free_memory(), std::uint64_t{status.f_bavail} * status.f_frsize);
}

// The pages of the control block are taken at once, those of the arenas when something is allocated.
std::shared_ptr<Region> Region::create(int ranks) {
  const std::uint64_t bytes = bytes_for(ranks);
  check_file_limit(bytes);
  Descriptor memory = memory_of_region(bytes);
  std::shared_ptr<Region> region(new Region(std::move(memory), bytes));
  region->back(0, control_bytes(ranks));
  ControlBlock::construct(region->base_, ranks);
  return region;
}

std::shared_ptr<Region> Region::open(Descriptor memory) {
  struct stat status {};
  if (::fstat(memory.get(), &status) != 0) refuse("fstat", errno);
  return std::shared_ptr<Region>(new Region(std::move(memory), static_cast<std::uint64_t>(status.st_size)));
}

std::uint64_t Region::arena_begin(int rank) const {
  return control_bytes(control().size) + static_cast<std::uint64_t>(rank) * arena_bytes();
}

std::uint64_t Region::arena_bytes() const {
  const auto ranks = static_cast<std::uint64_t>(control().size);
  return (bytes_ - control_bytes(control().size)) / ranks;
}

// Beyond the limit of a container the kernel does not refuse memory but kills the process. So this looks first at what
// is free, piece by piece, since the other ranks take memory at the same time. On failure it gives back the pages of
// all pieces.
void Region::back(std::uint64_t begin, std::uint64_t bytes) const {
  constexpr std::uint64_t kPiece = 16 * kMiB;
  const std::uint64_t end = begin + bytes;
  for (std::uint64_t at = begin; at < end; at += kPiece) {
    const std::uint64_t piece = std::min(kPiece, end - at), free = room();
    int error_number = fault_errno("shm.back");
    if (error_number == 0 && end - at > free) error_number = ENOMEM;
    while (error_number == 0 && ::fallocate(descriptor(), 0, static_cast<off_t>(at), static_cast<off_t>(piece)) != 0) {
      if (errno != EINTR)
        error_number = errno;
      else
        continue;
    }
    if (error_number == 0) continue;
    ::fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(bytes));
    if (error_number == ENOMEM || error_number == ENOSPC) fail_shortage(end - at, free);
    refuse("fallocate", error_number);
  }
}

// --- arenas
// -----------------------------------------------------------------------------------------------------------

Arena::Arena(std::shared_ptr<Region> region, int rank)
    : region_(std::move(region)),
      begin_(region_->arena_begin(rank)),
      limit_(begin_ + region_->arena_bytes()),
      end_(begin_) {}

std::shared_ptr<std::byte> Arena::allocate(std::uint64_t bytes) {
  // Cut to one byte more than the arena has: rounding larger sizes up could wrap around.
  const std::uint64_t whole = std::min(std::max<std::uint64_t>(bytes, 1), limit_ - begin_ + 1);
  const std::uint64_t rounded = up_to(whole, 4096);  // pages
  const std::uint64_t begin = take(rounded);
  return {region_->at(begin),
          [self = shared_from_this(), begin, rounded](std::byte*) { self->give_back(begin, rounded); }};
}

// Takes the first free range that is large enough. Otherwise takes new pages at the end, together with a free range
// that lies there.
std::uint64_t Arena::take(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, length] = *range;
    const bool last = begin + length == end_;
    if (length < bytes && !last) continue;
    if (length < bytes) {
      if (begin + bytes > limit_) break;
      region_->back(end_, begin + bytes - end_);
      end_ = begin + bytes;
    }
    free_.erase(range);
    if (length > bytes) free_.emplace(begin + bytes, length - bytes);
    return begin;
  }
  if (bytes > limit_ - end_) {
    throw RunError(concat("shared memory of the host group: a buffer of ", bytes, " bytes and ", end_ - begin_,
                          " bytes taken before are more than the ", limit_ - begin_, " bytes that this machine has"));
  }
  region_->back(end_, bytes);
  end_ += bytes;
  return end_ - bytes;
}

// Merges the range with the free ranges on both sides, so that no two free ranges ever touch.
void Arena::give_back(std::uint64_t begin, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto after = free_.find(begin + bytes);
  if (after != free_.end()) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto behind = free_.lower_bound(begin);
  if (behind != free_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

}  // namespace tandem::shm

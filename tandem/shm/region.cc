#include "tandem/shm/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/shm/free_memory.h"

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

// The size of the region. An arena can never need more than the memory of the machine.
std::uint64_t bytes_for(int ranks) {
  const auto machine =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t arena = std::min(machine, kMostAddresses / static_cast<std::uint64_t>(ranks));
  return control_bytes(ranks) + static_cast<std::uint64_t>(ranks) * up_to(arena, kMiB);
}

// The kernel answers growth beyond the limit with the signal SIGXFSZ, so the limit is looked at first.
void check_file_limit(std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    throw RunError(concat("shared memory of the host group: the limit on file sizes (ulimit -f) is ", limit.rlim_cur,
                          " bytes, and it also holds for shared memory; raise it to unlimited"));
  }
}

[[noreturn]] void fail_shortage(std::uint64_t bytes, std::uint64_t free) {
  throw RunError(concat("shared memory of the host group: ", bytes / kMiB, " MiB more are needed and ", free / kMiB,
                        " MiB are free on this host or in this container; use a smaller model or fewer ranks, or raise "
                        "the container's memory limit"));
}

}  // namespace

Region::Region(Descriptor memory, std::uint64_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
  void* base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor(), 0);
  if (base == MAP_FAILED) refuse("mmap", errno);
  base_ = static_cast<std::byte*>(base);
}

Region::~Region() { ::munmap(base_, bytes_); }

// The pages of the control block are taken at once, those of the arenas when something is allocated.
std::shared_ptr<Region> Region::create(int ranks) {
  Descriptor memory(::memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.is_open()) refuse("memfd_create", errno);
  const std::uint64_t bytes = bytes_for(ranks);
  check_file_limit(bytes);
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) refuse("ftruncate", errno);
  // With the seals nobody can cut the file short, so no mapped page can ever be missing.
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) refuse("seals", errno);
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
    const std::uint64_t piece = std::min(kPiece, end - at), free = free_memory();
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

}  // namespace tandem::shm

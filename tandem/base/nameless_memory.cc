#include "tandem/base/nameless_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

constexpr const char* kMemoryFolder = "/dev/shm";  // wherever POSIX shared memory is

std::string text_of_error(int number) { return std::system_category().message(number); }

}  // namespace

// With O_EXCL the file can never get a name.
Descriptor nameless_memory(const char* name) {
  Descriptor memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.is_open()) return memory;
  const int refusal = errno;
  if (refusal == EMFILE || refusal == ENFILE || refusal == ENOMEM)
    throw RunError(concat("memfd_create: ", text_of_error(refusal), "; see ulimit -n and -v"));
  memory = Descriptor(::open(kMemoryFolder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (memory.is_open()) return memory;
  const int missing = errno;
  throw RunError(concat("memfd_create: ", text_of_error(refusal), ", and ", kMemoryFolder, ": ", text_of_error(missing),
                        "; likely a seccomp profile of the container forbids memfd_create(): allow it, or mount a "
                        "tmpfs at ",
                        kMemoryFolder));
}

}  // namespace tandem

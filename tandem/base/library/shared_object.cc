// The plan: the file header says where the program headers (what the loader maps) and the section headers lie; every
// one of these, and what they name, must end within the file. Numbers of the file are compared by subtraction, since
// sums of them may overflow.
#include "tandem/base/library/shared_object.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/input_file.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

class ObjectFile {
 public:
  ObjectFile(int file, std::uint64_t size) : file_(file), size_(size) {}

  // Files of other kinds of processors, programs and object files are left to the loader, which names them.
  [[nodiscard]] std::string fault() const {
    const auto magic = read<std::uint32_t>(0);
    if (!magic || std::memcmp(&*magic, ELFMAG, SELFMAG) != 0) return "is not a shared object";
    const auto head = read<Elf64_Ehdr>(0);
    if (!head) return cut_off("its header", 0, sizeof(Elf64_Ehdr));
    constexpr auto kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != kOrder) return "";
    if (std::string fault = segments_fault(*head); !fault.empty()) return fault;
    return sections_fault(*head);
  }

 private:
  template <typename Struct>
  [[nodiscard]] std::optional<Struct> read(std::uint64_t at) const {
    Struct read;
    if (!holds(at, sizeof read)) return std::nullopt;
    if (::pread(file_, &read, sizeof read, static_cast<off_t>(at)) != static_cast<ssize_t>(sizeof read))
      return std::nullopt;
    return read;
  }
  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t bytes) const { return at <= size_ && bytes <= size_ - at; }
  [[nodiscard]] std::string cut_off(const char* what, std::uint64_t at, std::uint64_t bytes) const {
    return concat("is cut off or damaged: ", what, " should be ", bytes, " bytes at ", at, ", and the file has ", size_,
                  " bytes in all");
  }

  [[nodiscard]] std::string segments_fault(const Elf64_Ehdr& head) const {
    if (head.e_phnum == 0 || head.e_phentsize != sizeof(Elf64_Phdr)) return "is damaged: it has nothing to load";
    if (!holds(head.e_phoff, head.e_phnum * sizeof(Elf64_Phdr)))
      return cut_off("the list of what is loaded", head.e_phoff, head.e_phnum * sizeof(Elf64_Phdr));
    for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
      const auto segment = read<Elf64_Phdr>(head.e_phoff + i * sizeof(Elf64_Phdr));
      if (segment && !holds(segment->p_offset, segment->p_filesz))
        return cut_off("a part that is loaded", segment->p_offset, segment->p_filesz);
    }
    return "";
  }
  // A stripped file may have none.
  [[nodiscard]] std::string sections_fault(const Elf64_Ehdr& head) const {
    if (head.e_shnum == 0) return "";
    if (head.e_shentsize != sizeof(Elf64_Shdr)) return "is damaged: its sections have another form";
    if (!holds(head.e_shoff, head.e_shnum * sizeof(Elf64_Shdr)))
      return cut_off("the list of its sections", head.e_shoff, head.e_shnum * sizeof(Elf64_Shdr));
    for (std::uint64_t i = 0; i < head.e_shnum; ++i) {
      const auto section = read<Elf64_Shdr>(head.e_shoff + i * sizeof(Elf64_Shdr));
      if (!section || section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL) continue;
      if (!holds(section->sh_offset, section->sh_size))
        return cut_off("a section", section->sh_offset, section->sh_size);
    }
    return "";
  }

  int file_;
  std::uint64_t size_;
};

}  // namespace

// O_NONBLOCK: opening a fifo must not wait for a writer, which may have come in the place of the file.
std::string fault_of_shared_object(const std::filesystem::path& file) {
  try {
    const Descriptor opened = open_regular("read", file, O_RDONLY);
    struct stat status {};
    if (::fstat(opened.get(), &status) != 0) return concat("cannot be read: ", std::generic_category().message(errno));
    if (status.st_size == 0) return "is empty";
    return ObjectFile(opened.get(), static_cast<std::uint64_t>(status.st_size)).fault();
  } catch (const CheckpointError& error) {
    return concat("is not usable: ", error.what());
  }
}

}  // namespace tandem

#include "tandem/model/files/zip_archive.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/budget.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

// An archive ends with a directory of fixed-size entries with names behind them, and behind that directory its end
// record, which says where it begins. Archives of 4 GiB and more, and all that PyTorch writes, have the same numbers
// once more with 64 bits, which count where the older fields are all ones. (PKWARE's APPNOTE.TXT, section 4.3.)
namespace tandem::model {
namespace {

constexpr std::size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kLocalBytes = 30;
constexpr std::uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint64_t kIn64 = 0xFFFFFFFF;  // a 32-bit field whose number stands in a 64-bit one
constexpr std::uint64_t kMostRecords = 1'000'000;

[[noreturn]] void refuse_archive(const std::string& why) {
  throw CheckpointError(concat("its zip archive is damaged: ", why));
}

// A part of the file that is read field by field. A field beyond its end is an error.
class ZipFields {
 public:
  explicit ZipFields(std::string_view bytes) : bytes_(bytes) {}

  // The next little-endian number of `size` bytes.
  std::uint64_t number(std::size_t size) {
    const std::string_view from = take(size);
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;) number = number << 8 | static_cast<unsigned char>(from[i]);
    return number;
  }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) refuse_archive("it ends within its directory");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  void skip(std::size_t size) { (void)take(size); }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

// The part of the file from `begin` on, `size` bytes long.
std::string_view part_of(std::string_view file, std::uint64_t begin, std::uint64_t size) {
  if (begin > file.size() || size > file.size() - begin)
    refuse_archive(
        concat("bytes ", begin, " to ", begin, " + ", size, " are beyond the ", file.size(), " that it has"));
  return file.substr(begin, size);
}

struct ZipDirectory {
  std::uint64_t entries = 0, begin = 0, size = 0;
};

// The place of the end record, which is the last one whose comment ends with the file.
std::optional<std::size_t> find_end(std::string_view file) {
  constexpr std::size_t kMostComment = 65535;
  if (file.size() < kEndBytes) return std::nullopt;
  const std::size_t last = file.size() - kEndBytes, first = last - std::min(last, kMostComment);
  for (std::size_t at = last + 1; at-- > first;) {
    ZipFields fields(file.substr(at));
    if (fields.number(4) != kEndMark) continue;
    fields.skip(16);
    if (fields.number(2) == file.size() - at - kEndBytes) return at;
  }
  return std::nullopt;
}

ZipDirectory find_directory(std::string_view file) {
  const std::optional<std::size_t> end = find_end(file);
  if (!end) throw CheckpointError("it is no zip archive, or it is cut off");
  ZipFields fields(file.substr(*end + 8));
  fields.skip(2);
  ZipDirectory directory{.entries = fields.number(2)};
  directory.size = fields.number(4);
  directory.begin = fields.number(4);
  if (*end < kLocatorBytes) return directory;
  ZipFields locator(file.substr(*end - kLocatorBytes, kLocatorBytes));
  if (locator.number(4) != kLocatorMark) return directory;
  locator.skip(4);
  ZipFields end64(part_of(file, locator.number(8), kEnd64Bytes));
  if (end64.number(4) != kEnd64Mark) refuse_archive("its 64-bit end record is missing");
  end64.skip(28);
  directory.entries = end64.number(8);
  directory.size = end64.number(8);
  directory.begin = end64.number(8);
  return directory;
}

// One entry of the directory: its name, and where its local header and its bytes are.
struct ZipRecord {
  std::string_view name;
  std::uint64_t header = 0, begin = 0, size = 0;
  bool is_stored = true;
};

// Takes the 64-bit numbers of an entry's extra field, which has them in this order and only those that are asked for.
void read_extra(ZipFields extra, std::uint64_t& unpacked, std::uint64_t& packed, std::uint64_t& header) {
  while (extra.left() >= 4) {
    const std::uint64_t kind = extra.number(2), size = extra.number(2);
    ZipFields field(extra.take(size));
    if (kind != 1) continue;
    for (std::uint64_t* number : {&unpacked, &packed, &header}) {
      if (*number == kIn64) *number = field.number(8);
    }
    return;
  }
}

ZipRecord read_entry(ZipFields& directory, std::string_view file, std::uint64_t most) {
  if (directory.number(4) != kEntryMark) refuse_archive("an entry of its directory does not begin as one");
  directory.skip(4);
  const std::uint64_t flags = directory.number(2), method = directory.number(2);
  directory.skip(8);
  std::uint64_t packed = directory.number(4), unpacked = directory.number(4);
  const std::uint64_t name_size = directory.number(2), extra_size = directory.number(2);
  const std::uint64_t comment_size = directory.number(2);
  directory.skip(8);
  ZipRecord record{.name = {}, .header = directory.number(4)};
  record.name = directory.take(name_size);
  read_extra(ZipFields(directory.take(extra_size)), unpacked, packed, record.header);
  directory.skip(comment_size);
  const std::string name(record.name.substr(0, 100));
  record.is_stored = method == 0 && packed == unpacked && (flags & 1) == 0;
  ZipFields local(part_of(file, record.header, kLocalBytes));
  if (local.number(4) != kLocalMark) refuse_archive(concat("record '", name, "' does not begin as one"));
  local.skip(22);
  const std::uint64_t local_name = local.number(2), local_extra = local.number(2);
  record.begin = record.header + kLocalBytes + local_name + local_extra;
  record.size = packed;
  if (record.begin > most || record.size > most - record.begin)
    refuse_archive(concat("record '", name, "' claims ", record.size, " bytes from byte ", record.begin,
                          " on; its directory begins at byte ", most));
  return record;
}

// Records that share bytes would let a small archive hold more than its own size.
void check_overlaps(std::vector<ZipRecord> records) {
  std::ranges::sort(records, {}, &ZipRecord::header);
  std::uint64_t at = 0;
  for (const ZipRecord& record : records) {
    if (record.header < at) refuse_archive(concat("record '", record.name.substr(0, 100), "' overlaps another one"));
    at = record.begin + record.size;
  }
}

}  // namespace

ZipArchive::ZipArchive(std::string_view file) {
  const ZipDirectory directory = find_directory(file);
  ZipFields fields(part_of(file, directory.begin, directory.size));
  Budget budget({.items = kMostRecords, .item = "records"}, refuse_archive);
  budget.take_items(directory.entries);
  std::vector<ZipRecord> all;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const ZipRecord record = read_entry(fields, file, directory.begin);
    const ZipContent content{.bytes = file.substr(record.begin, record.size), .is_stored = record.is_stored};
    if (!records_.emplace(record.name, content).second)
      refuse_archive(concat("it has two records '", record.name.substr(0, 100), "'"));
    all.push_back(record);
  }
  check_overlaps(all);
  if (!all.empty()) folder_ = all.front().name.substr(0, all.front().name.find('/') + 1);
}

std::string_view ZipArchive::at(std::string_view name) const {
  const auto found = records_.find(name);
  const std::string shown(name.substr(0, 100));
  if (found == records_.end()) throw CheckpointError(concat("its zip archive has no record '", shown, "'"));
  if (!found->second.is_stored) {
    throw CheckpointError(concat("record '", shown,
                                 "' of its zip archive is compressed or encrypted, which torch.save() ",
                                 "does to none; load it in Python and save it once more"));
  }
  return found->second.bytes;
}

}  // namespace tandem::model

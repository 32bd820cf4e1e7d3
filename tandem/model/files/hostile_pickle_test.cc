// Pickles and archives that a stranger made to cost more than they are worth. What bounds them are counts, so every
// one of these is refused, or read, alike on every machine.
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/model/files/pickle_reader.h"
#include "tandem/model/files/torch_file.h"
#include "tandem/model/files/zip_archive.h"

namespace tandem::model {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Little-endian.
std::string bytes_of(std::uint64_t number, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i, number >>= 8) bytes += static_cast<char>(number);
  return bytes;
}
std::string long_put(std::uint64_t index) { return "r" + bytes_of(index, 4); }
std::string long_get(std::uint64_t index) { return "j" + bytes_of(index, 4); }
std::string text(const std::string& content) { return "X" + bytes_of(content.size(), 4) + content; }
std::string integer(std::uint64_t value) { return "\x8a\x08" + bytes_of(value, 8); }
std::string repeated(const std::string& piece, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += piece;
  return all;
}

int storages_loaded = 0;
at::IValue read_program(const std::string& program) {
  return read_pickle("\x80\x02" + program + ".", [](const std::string&, at::ScalarType dtype, std::int64_t count) {
    ++storages_loaded;
    return torch::arange(count, dtype);
  });
}
void expect_refused(const std::string& program, const std::string& why) {
  EXPECT_THAT([&] { (void)read_program(program); }, ThrowsMessage<CheckpointError>(HasSubstr(why)));
}

const std::string kStorage = "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\x04tQ";
const std::string kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n";

TEST(HostilePickleTest, TuplesThatMultiplyByReferencesAreRefused) {
  std::string program = ")" + long_put(0);
  for (int i = 0; i < 60; ++i) program += long_get(i) + long_get(i) + "\x86" + long_put(i + 1);
  expect_refused("(" + program + "t", "more than 10000000 parts");
}

TEST(HostilePickleTest, AValueThatIsReferredToTwiceIsBuiltOnce) {
  const auto pair = read_program("]" + long_put(0) + "K\x05" + "a" + long_get(0) + "\x86").toTuple();
  EXPECT_TRUE(pair->elements()[0].is(pair->elements()[1]));
  EXPECT_EQ(pair->elements()[0].toListRef().size(), 1u);
}

TEST(HostilePickleTest, ALongTupleIsReadInOnePass) {
  EXPECT_EQ(read_program("(" + std::string(300'000, 'N') + "t").toTuple()->elements().size(), 300'000u);
}

TEST(HostilePickleTest, NestingIsCountedThroughTheMemo) {
  // Lists that are put into each other after each was remembered while it was still empty.
  std::string program = "]" + long_put(0);
  for (int i = 1; i < 1000; ++i) program += "]" + long_put(i) + long_get(i - 1) + "a";
  expect_refused("(" + program + "t", "nested more than 64");
}

TEST(HostilePickleTest, AContainerInItselfIsRefused) {
  expect_refused("]q" + "\0h\0a"s, "a part of itself");
  expect_refused("}q" + "\0K\1h\0s"s, "a part of itself");
}

TEST(HostilePickleTest, ManySmallContainersAreRefusedByTheirMemory) {
  expect_refused("(" + std::string(1'000'000, '}') + "t", "bytes of memory");
}

// LibTorch's dict doubles its table until no key is too far from its place. These integers are all in one place of any
// table: their products with the constant of its hash are 1, 2, 3, ...
TEST(HostilePickleTest, KeysWithOneHashAreRefusedBeforeTheTableGrows) {
  constexpr std::uint64_t kGoldenRatio = 11400714819323198485U;
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kGoldenRatio * inverse;
  std::string items;
  for (std::uint64_t i = 1; i <= 60; ++i) items += integer(i * inverse) + "N";
  expect_refused("}(" + items + "u", "bytes of memory");
  std::string ordinary;
  for (std::uint64_t i = 0; i < 20'000; ++i) ordinary += integer(i) + "N" + text(concat("key", i)) + "N";
  EXPECT_EQ(read_program("}(" + ordinary + "u").toGenericDict().size(), 40'000u);
}

TEST(HostilePickleTest, ALongKeyOfManyDictsIsPaidForByEach) {
  expect_refused("(" + text(std::string(500'000, 'x')) + long_put(0) + repeated("}" + long_get(0) + "Ns", 5000) + "t",
                 "bytes of memory");
}

TEST(HostilePickleTest, AKeyTwiceIsRefused) { expect_refused("}(" + text("a") + "N" + text("a") + "Nu", "'a' twice"); }

TEST(HostilePickleTest, SizesThatAreOnlyClaimedAreRefused) {
  expect_refused("X\xff\xff\xff\x7f" + "abc"s, "ends in the middle");
  expect_refused("\x8a\xff" + std::string(255, '\1'), "more than 64 bits");
  expect_refused("\x8b\xff\xff\xff\x7f"s, "operation 139");
  const std::string half = integer(std::uint64_t{1} << 32);
  expect_refused(kRebuild + "(" + kStorage + "K" + "\0"s + half + half + "\x86K" + "\0K\0"s + "\x86tR",
                 "impossible sizes");  // their product is 0 in 64 bits
  expect_refused(kRebuild + "(" + kStorage + "K" + "\0K\4"s + "\x85" + integer(~std::uint64_t{0}) + "\x85tR",
                 "impossible sizes");  // a negative stride
  expect_refused(kRebuild + "(" + kStorage + "K" + "\0("s + std::string(100'000, '\x88') + "t)tR", "dimensions");
}

TEST(HostilePickleTest, TensorsOfOneStorageShareItAndItIsLoadedOnce) {
  storages_loaded = 0;
  const std::string tensor = kRebuild + "(" + kStorage + "K" + "\0K\4\x85K\1\x85tR"s;
  const auto both = read_program(tensor + tensor + "\x86").toTuple();
  EXPECT_EQ(storages_loaded, 1);
  EXPECT_EQ(both->elements()[0].toTensor().data_ptr(), both->elements()[1].toTensor().data_ptr());
  EXPECT_FALSE(both->elements()[0].toTensor().is_view()) << "each is a tensor of its own";
}

TEST(HostilePickleTest, ManyTensorsOfFewBytesAreRefused) {
  const std::string arguments = "(" + kStorage + "K" + "\0K\4\x85K\1\x85t"s + long_put(0);
  expect_refused("(" + arguments + kRebuild + long_put(1) + repeated(long_get(1) + long_get(0) + "R", 200'000) + "t",
                 "bytes of memory");
}

// One record of an archive, as the directory and the record's own header describe it.
struct Entry {
  std::string name, content;
  std::uint64_t method = 0, packed = content.size(), unpacked = content.size();
  std::int64_t header = -1;  // where it is said to begin; -1: where it does
};

std::string archive_of(const std::vector<Entry>& entries) {
  std::string file, directory;
  for (const Entry& entry : entries) {
    const auto begin = entry.header < 0 ? file.size() : static_cast<std::uint64_t>(entry.header);
    const std::string sizes = bytes_of(entry.packed, 4) + bytes_of(entry.unpacked, 4) + bytes_of(entry.name.size(), 2);
    const std::string common = bytes_of(0, 2) + bytes_of(entry.method, 2) + bytes_of(0, 8) + sizes + bytes_of(0, 2);
    file += "PK\3\4" + bytes_of(20, 2) + common + entry.name + entry.content;
    directory +=
        "PK\1\2" + bytes_of(20, 2) + bytes_of(20, 2) + common + bytes_of(0, 10) + bytes_of(begin, 4) + entry.name;
  }
  const std::string count = bytes_of(entries.size(), 2);
  return file + directory + "PK\5\6" + bytes_of(0, 4) + count + count + bytes_of(directory.size(), 4) +
         bytes_of(file.size(), 4) + bytes_of(0, 2);
}

void expect_archive_refused(const std::vector<Entry>& entries, const std::string& why) {
  const std::string file = archive_of(entries);
  EXPECT_THAT([&] { (void)ZipArchive(file); }, ThrowsMessage<CheckpointError>(HasSubstr(why)));
}

TEST(HostileArchiveTest, RecordsAreReadWhereTheyAreStored) {
  const std::string file = archive_of({{"a/x", "one"}, {"a/y", ""}});
  const ZipArchive archive(file);
  EXPECT_EQ(archive.folder(), "a/");
  EXPECT_EQ(archive.at("a/x"), "one");
  EXPECT_EQ(archive.at("a/y"), "");
  EXPECT_THROW((void)archive.at("a/z"), CheckpointError);
}

TEST(HostileArchiveTest, WhatIsCompressedOrLiesAboutItsSizeIsRefused) {
  for (const Entry& packed : {Entry{.name = "a/x", .content = "one", .method = 8},
                              Entry{.name = "a/x", .content = "one", .unpacked = 1 << 30}}) {
    const std::string file = archive_of({packed});
    EXPECT_THAT([&] { (void)ZipArchive(file).at("a/x"); }, ThrowsMessage<CheckpointError>(HasSubstr("compressed")));
  }
  expect_archive_refused({{.name = "a/x", .content = "one", .packed = 1 << 30, .unpacked = 1 << 30}}, "claims");
  expect_archive_refused({{.name = "a/x", .content = "one", .header = 1 << 30}}, "beyond");
  expect_archive_refused({{.name = "a/x", .content = "one", .header = 1}}, "does not begin as one");
}

TEST(HostileArchiveTest, RecordsThatOverlapAndNamesThatComeTwiceAreRefused) {
  expect_archive_refused({{.name = "a/x", .content = "one"}, {.name = "a/y", .content = "two", .header = 0}},
                         "overlaps");
  expect_archive_refused({{"a/x", "one"}, {"a/x", "two"}}, "two records");
}

TEST(HostileArchiveTest, EveryCutAndEveryDamagedByteIsReadOrRefused) {
  const std::string whole = archive_of({{"a/data.pkl", "\x80\x02]."}, {"a/version", "3\n"}});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW((void)ZipArchive(whole.substr(0, size)), CheckpointError) << size;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    try {
      (void)ZipArchive(damaged);
    } catch (const CheckpointError&) {
    }
  }
}

TEST(HostileArchiveTest, AFileOfALaterVersionIsRefused) {
  const TemporaryFolder folder;
  write_file(folder / "f.pt", archive_of({{"a/data.pkl", "\x80\x02]."}, {"a/version", "3\n"}}));
  EXPECT_TRUE(load_torch_file(folder / "f.pt").isList());
  write_file(folder / "f.pt", archive_of({{"a/data.pkl", "\x80\x02]."}, {"a/version", "11\n"}}));
  EXPECT_THAT([&] { (void)load_torch_file(folder / "f.pt"); }, ThrowsMessage<CheckpointError>(HasSubstr("version")));
}

}  // namespace
}  // namespace tandem::model

#include "tandem/base/library/shared_object.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class SharedObjectTest : public ::testing::Test {
 protected:
  std::string fault_of(const std::string& content) {
    std::ofstream(file_, std::ios::binary) << content;
    return fault_of_shared_object(file_);
  }
  // This program with another header.
  std::string fault_with(const std::function<void(Elf64_Ehdr&)>& change) {
    std::string content = this_program();
    Elf64_Ehdr head;
    std::memcpy(&head, content.data(), sizeof head);
    change(head);
    std::memcpy(content.data(), &head, sizeof head);
    return fault_of(content);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "object.so";
};

TEST_F(SharedObjectTest, AWholeFileHasNoFault) { EXPECT_THAT(fault_of(this_program()), IsEmpty()); }

TEST_F(SharedObjectTest, AFileThatIsCutOffAnywhereIsNamed) {
  const std::string whole = this_program();
  for (const std::size_t size : {4UL, 63UL, 64UL, 200UL, whole.size() / 3, whole.size() - 1})
    EXPECT_THAT(fault_of(whole.substr(0, size)), HasSubstr(std::to_string(size) + " bytes in all"));
  EXPECT_THAT(fault_of(""), HasSubstr("is empty"));
}

TEST_F(SharedObjectTest, PlacesBeyondTheEndOfAllNumbersAreBeyondTheFile) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(fault_with([](Elf64_Ehdr& head) { head.e_phoff = kMost - 7; }), HasSubstr("cut off or damaged"));
  EXPECT_THAT(fault_with([](Elf64_Ehdr& head) { head.e_shoff = kMost - 7; }), HasSubstr("cut off or damaged"));
  EXPECT_THAT(fault_with([](Elf64_Ehdr& head) { head.e_phnum = 0; }), HasSubstr("nothing to load"));
}

TEST_F(SharedObjectTest, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(fault_of_shared_object(file_), HasSubstr("it is a pipe"));
  EXPECT_THAT(fault_of_shared_object(folder_ / "gone"), HasSubstr("No such file"));
}

}  // namespace
}  // namespace tandem

#include "tandem/base/file_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FileOwnerTest : public ::testing::Test {
 protected:
  FileOwnerTest() {
    std::filesystem::create_directory(folder_ / "inner");
    std::ofstream(file_) << "content";
    set(file_, 0644);
    set(folder_ / "inner", 0755);
  }
  static void set(const std::filesystem::path& path, mode_t mode) { ASSERT_EQ(::chmod(path.c_str(), mode), 0); }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "inner/file";
};

TEST_F(FileOwnerTest, AFileOfTheUsersOwnIsWrittenByNobodyElse) {
  EXPECT_THAT(who_else_writes(file_), IsEmpty());
  EXPECT_THAT(who_else_replaces(file_), IsEmpty()) << "the folder of temporary files is sticky";
}

TEST_F(FileOwnerTest, WhatOthersMayWriteIsNamed) {
  set(file_, 0646);
  EXPECT_THAT(who_else_writes(file_), HasSubstr("inner/file may be written by everybody (chmod o-w)"));
  EXPECT_THAT(who_else_replaces(file_), HasSubstr("inner/file may be written by everybody"));
  set(file_, 0664);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(file_.c_str(), 0, 65534), 0);
    EXPECT_THAT(who_else_writes(file_), HasSubstr("may be written by its group (65534; chmod g-w)"));
  }
  EXPECT_THAT(who_else_writes(folder_ / "gone"), HasSubstr("cannot be looked at: No such file"));
}

TEST_F(FileOwnerTest, AFolderAboveItInWhichOthersMayWriteIsNamedUnlessItIsSticky) {
  set(folder_.path(), 0777);
  EXPECT_THAT(who_else_writes(file_), IsEmpty());
  EXPECT_THAT(who_else_replaces(file_), HasSubstr(folder_.path().string() + " may be written by everybody"));
  set(folder_.path(), 01777);
  EXPECT_THAT(who_else_replaces(file_), IsEmpty());
}

TEST_F(FileOwnerTest, ALinkIsAsOpenAsItsOwnFolderAndAsWhatItPointsTo) {
  std::filesystem::create_directory(folder_ / "links");
  std::filesystem::create_symlink(file_, folder_ / "links/file");
  EXPECT_THAT(who_else_replaces(folder_ / "links/file"), IsEmpty());
  set(folder_ / "links", 0777);
  EXPECT_THAT(who_else_replaces(folder_ / "links/file"), HasSubstr("links may be written by everybody"));
  set(folder_ / "links", 0755);
  set(folder_ / "inner", 0777);
  EXPECT_THAT(who_else_replaces(folder_ / "links/file"), HasSubstr("inner may be written by everybody"));
}

TEST_F(FileOwnerTest, WhatBelongsToAnotherUserIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(file_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(who_else_writes(file_), HasSubstr("belongs to another user (65534; this is 0)"));
}

}  // namespace
}  // namespace tandem

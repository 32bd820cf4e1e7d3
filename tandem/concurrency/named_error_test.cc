#include "tandem/concurrency/named_error.h"

#include <gtest/gtest.h>

#include <new>

#include "tandem/base/error.h"

namespace tandem {
namespace {

template <typename Thrown, typename... Arguments>
void expect_the_same_kind(const Arguments&... arguments) {
  try {
    try {
      throw Thrown(arguments...);
    } catch (...) {
      rethrow_named("loader 1");
    }
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(Thrown)) << error.what();
    EXPECT_EQ(std::string(error.what()), "loader 1: it broke");
  }
}

TEST(NamedErrorTest, KeepsTheKindOfEveryErrorOfTandem) {
  const std::string what = "it broke";
  expect_the_same_kind<ConfigError>(what);
  expect_the_same_kind<InvariantError>(what);
  expect_the_same_kind<PeerLost>(3, what);
  expect_the_same_kind<DeadlineExceeded>(what);
  expect_the_same_kind<GroupAborted>(what);
  expect_the_same_kind<DataError>(what);
  expect_the_same_kind<EnvError>(what);
  expect_the_same_kind<CheckpointError>(what);
  expect_the_same_kind<RunError>(what);
}

TEST(NamedErrorTest, WhatIsNoneOfThemGoesOnAsItIs) {
  try {
    try {
      throw std::bad_alloc();
    } catch (...) {
      rethrow_named("learner");
    }
  } catch (const std::bad_alloc&) {
    SUCCEED();
  }
}

}  // namespace
}  // namespace tandem

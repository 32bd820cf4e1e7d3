#include "tandem/base/error.h"

#include <gtest/gtest.h>

#include <exception>
#include <new>
#include <typeinfo>

namespace tandem {
namespace {

// What comes of `thrown` on its way.
template <typename Thrown>
std::exception_ptr rethrown(const Thrown& thrown) {
  try {
    try {
      throw Thrown(thrown);
    } catch (...) {
      rethrow_with("loader 1: ", [](int rank) { return rank + 10; });
    }
  } catch (...) {
    return std::current_exception();
  }
}

template <typename Thrown, typename... Arguments>
void expect_the_same_kind(const Arguments&... arguments) {
  try {
    std::rethrow_exception(rethrown(Thrown(arguments...)));
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(Thrown)) << error.what();
    EXPECT_EQ(std::string(error.what()), "loader 1: it broke");
  }
}

TEST(RethrowTest, KeepsTheKindOfEveryErrorOfTandem) {
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

TEST(RethrowTest, ALostPeerIsCountedAsTheCallerCounts) {
  try {
    std::rethrow_exception(rethrown(PeerLost(3, "it broke")));
  } catch (const PeerLost& error) {
    EXPECT_EQ(error.peer(), 13);
  }
}

TEST(RethrowTest, WhatIsNoneOfThemGoesOnAsItIs) {
  EXPECT_THROW(std::rethrow_exception(rethrown(std::bad_alloc())), std::bad_alloc);
}

}  // namespace
}  // namespace tandem

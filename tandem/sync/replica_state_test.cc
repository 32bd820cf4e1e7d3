// A-F3: models that differ are named before the first step, instead of being cut to what they have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::sync {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Layers : torch::nn::Module {
  explicit Layers(const std::vector<std::string>& names, torch::Dtype dtype = torch::kFloat) {
    for (const std::string& name : names) register_parameter(name, torch::ones({2, 3}, dtype));
  }
};

// What is said when replica 1 has `other` and replica 0 the layers a, b and c.
std::string refusal(const std::vector<std::string>& other, torch::Dtype dtype = torch::kFloat) {
  const auto outcomes = run_world(
      2, 2, {}, [](Replica&, Replicated&) {},
      [&](int replica) {
        return replica == 1 ? std::make_shared<Layers>(other, dtype)
                            : std::make_shared<Layers>(std::vector<std::string>{"a", "b", "c"});
      });
  return outcomes[0] + outcomes[1];
}

TEST(ReplicaStateTest, AReplicaWithFewerParametersIsNamedWithTheFirstThatItLacks) {
  EXPECT_THAT(refusal({"a", "b"}), AllOf(HasSubstr("replica 0 has 3 parameters; parameter c Float [2, 3]"),
                                         HasSubstr("replica 1 has 2 parameters; no further one")));
}

TEST(ReplicaStateTest, AReplicaWithMoreParametersIsNamedWithTheFirstThatIsTooMany) {
  EXPECT_THAT(refusal({"a", "b", "c", "d"}), AllOf(HasSubstr("replica 0 has 3 parameters; no further one"),
                                                   HasSubstr("replica 1 has 4 parameters; parameter d Float")));
}

TEST(ReplicaStateTest, AnotherOrderOrDtypeIsAnotherModel) {
  EXPECT_THAT(refusal({"b", "a", "c"}), AllOf(HasSubstr("; parameter a Float"), HasSubstr("; parameter b Float")));
  EXPECT_THAT(refusal({"a", "b", "c"}, torch::kDouble),
              AllOf(HasSubstr("; parameter a Float"), HasSubstr("; parameter a Double")));
}

struct Counted : torch::nn::Module {
  explicit Counted(std::int64_t size) {
    register_parameter("a", torch::ones({2}));
    register_buffer("count", torch::zeros({size}));
  }
};

TEST(ReplicaStateTest, ADifferenceBehindTheParametersIsShownAsItIs) {
  const auto outcomes = run_world(
      2, 2, {}, [](Replica&, Replicated&) {},
      [](int replica) { return std::make_shared<Counted>(replica == 0 ? 1 : 100); });
  EXPECT_THAT(outcomes[0] + outcomes[1], AllOf(HasSubstr("replica 0 has 1 parameters; state buffers.0 Float"),
                                               HasSubstr("replica 1 has 1 parameters; state buffers.0 Float")));
}

// Buffers of 1 to 70 bytes, and one that is registered and never given a value, as those of InstanceNorm.
struct Bytes : torch::nn::Module {
  Bytes() {
    register_parameter("a", torch::ones({2}));
    register_buffer("never", torch::Tensor());
    for (std::int64_t size = 1; size <= 70; ++size)
      register_buffer(concat("b", size), torch::zeros({size}, torch::kByte));
  }
};

std::string drift_of(Replica& replica, comm::Group& group) {
  try {
    require_same_state(replica, group, "Look.", kNoLimits);
    return "";
  } catch (const RunError& error) {
    return error.what();
  }
}

TEST(ReplicaStateTest, AnyByteThatDiffersIsFoundInItsTensor) {
  const auto groups = comm::make_local_group(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      comm::Group& group = *groups[static_cast<std::size_t>(rank)];
      Replica replica(place_on_cpu(2, 2)[static_cast<std::size_t>(rank)], std::make_shared<Bytes>(), 1, {});
      EXPECT_EQ(drift_of(replica, group), "");
      for (const auto& buffer : replica.module().named_buffers()) {
        if (!buffer.value().defined()) continue;
        for (std::int64_t at = 0; at < buffer.value().numel(); ++at) {
          if (rank == 1) buffer.value()[at].fill_(1);
          EXPECT_THAT(drift_of(replica, group), AllOf(HasSubstr(concat("'buffers.", buffer.key(), "'")),
                                                      HasSubstr("replica 1"), HasSubstr("Look.")))
              << "byte " << at;
          if (rank == 1) buffer.value()[at].fill_(0);
        }
      }
    });
  }
}

}  // namespace
}  // namespace tandem::sync

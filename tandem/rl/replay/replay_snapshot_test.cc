#include "tandem/rl/replay/replay_snapshot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/replay/testing/draw.h"
#include "tandem/rl/replay/testing/specs.h"

namespace tandem::rl {
namespace {

// Pieces as files would have them: copies, by name and array.
using Files = std::map<std::string, std::map<std::string, Past::Bytes>>;

// Writes a snapshot as the header says: final pieces only where they are not there yet.
void write(const ReplaySnapshot& snapshot, Files& files) {
  std::set<std::string> named;
  for (const ReplayPiece& piece : snapshot.pieces) {
    named.insert(piece.name);
    if (piece.is_final && files.contains(piece.name)) continue;
    files[piece.name].clear();
    for (const NamedBytes& array : piece.arrays)
      files[piece.name][array.name].assign(array.bytes.begin(), array.bytes.end());
  }
  std::erase_if(files, [&](const auto& file) { return !named.contains(file.first); });
}

ReadReplayPiece reader_of(const Files& files) {
  return [&files](const std::string& name) {
    const auto found = files.find(name);
    if (found == files.end()) throw CheckpointError("there is no piece " + name);
    const auto copy = std::make_shared<std::map<std::string, Past::Bytes>>(found->second);
    ReplayPiece piece{.name = name, .memory = copy};
    for (const auto& [array, bytes] : *copy) piece.arrays.push_back({array, bytes});
    return piece;
  };
}

ReplayOptions full_options() {
  return {.rows = 150,
          .n_step = 3,
          .gamma = 0.9,
          .leaves = {{}, {.frames = 4}, {}, {.numbers = StoredNumbers::kFloat32}},
          .ends = 60,
          .priorities = PriorityOptions{}};
}
Past full_past() { return {mixed_spec(), 3, 5, {}, {{}, {.frames = 4}, {}, {}}}; }

// A draw and new priorities for it, as a learner makes them.
Draw learn(ReplayPart& part, const Spec& spec) {
  Draw draw(part, spec, 20, 0.5);
  std::vector<double> priorities;
  for (const double reward : draw.reward) priorities.push_back(std::abs(reward));
  part.update_priorities(draw.row, priorities);
  return draw;
}

TEST(ReplaySnapshotTest, ARestoredPartGoesOnWithTheSameBits) {
  for (const int steps : {0, 1, 7, 60, 333}) {
    Past past = full_past();
    ReplayPart part(past.spec(), 3, full_options(), 1), again(past.spec(), 3, full_options(), 2);
    past.begin(part);
    for (int step = 0; step < steps; ++step) {
      past.step(part);
      if (step % 4 == 3) (void)learn(part, past.spec());
    }
    Files files;
    write(part.snapshot(), files);
    again.restore(reader_of(files));
    for (int step = 0; step < 60; ++step) {
      past.make_step();
      part.append(past.actions(), past.arrays());
      again.append(past.actions(), past.arrays());
      if (part.drawable() == 0) continue;
      const Draw draw = learn(part, past.spec());
      ASSERT_EQ(draw, learn(again, past.spec())) << step << " steps after " << steps;
      expect_all_as_in(past, full_options(), draw);
    }
    EXPECT_EQ(part.stats().sampled, again.stats().sampled);
    EXPECT_EQ(part.stats().priority_mean, again.stats().priority_mean);
    EXPECT_EQ(part.stats().rows, again.stats().rows);
    Files one, other;
    write(part.snapshot(), one);
    write(again.snapshot(), other);
    EXPECT_EQ(one, other) << "the next checkpoint has the same bytes";
  }
}

TEST(ReplaySnapshotTest, APartThatNeverBeganIsRestoredAsSuch) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1), again(past.spec(), 3, full_options(), 1);
  Files files;
  write(part.snapshot(), files);
  past.begin(again);
  past.steps(again, 10);
  again.restore(reader_of(files));
  EXPECT_EQ(again.drawable(), 0);
  EXPECT_THROW(again.append(past.actions(), past.arrays()), ConfigError) << "it has not begun";
}

TEST(ReplaySnapshotTest, HindsightGoesOnWithTheSameGoals) {
  const ReplayOptions options{
      .rows = 100,
      .kept_ends = KeptEnds::kAll,
      .ends = 100,
      .hindsight = HindsightOptions{.strategy = GoalStrategy::kEpisode, .reward = [](const GoalRows&) {}}};
  Past past(goal_spec(), 2, 3);
  ReplayPart part(past.spec(), 2, options, 1), again(past.spec(), 2, options, 1);
  past.begin(part);
  past.steps(part, 130);
  Files files;
  write(part.snapshot(), files);
  again.restore(reader_of(files));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Draw(part, past.spec(), 50), Draw(again, past.spec(), 50));
}

TEST(ReplaySnapshotTest, OnlyWhatIsNewIsWritten) {
  const Spec spec = cheetah_spec(ElementType::kFloat32);
  Past past(spec, 1, 1, {.terminated = 0, .truncated = 1, .both = 0});
  ReplayPart part(spec, 1, {.rows = 2000, .ends = 64}, 1);
  past.begin(part);
  past.steps(part, 1900);
  std::set<std::string> there;
  const auto new_bytes = [&] {
    std::uint64_t bytes = 0;
    const ReplaySnapshot snapshot = part.snapshot();
    for (const ReplayPiece& piece : snapshot.pieces) {
      if (piece.is_final && !there.insert(piece.name).second) continue;
      for (const NamedBytes& array : piece.arrays) bytes += array.bytes.size();
    }
    EXPECT_LE(snapshot.bytes_written_each_time(), 2000U * 101 / 16) << "the newest segments and a few numbers";
    EXPECT_GE(snapshot.bytes(), 1900U * 101) << "17 + 6 float32, a float64 and a byte";
    return bytes;
  };
  EXPECT_GE(new_bytes(), 1900U * 101);
  past.steps(part, 100);
  EXPECT_LE(new_bytes(), (100 + 2000 / 16) * 101U);
}

TEST(ReplaySnapshotTest, CheckpointsOfAnyMomentsRestoreTheirMoment) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1);
  past.begin(part);
  Files files;
  for (int round = 0; round < 30; ++round) {
    past.steps(part, 7);
    if (round % 11 == 10) past.begin(part);
    write(part.snapshot(), files);
    ReplayPart again(past.spec(), 3, full_options(), 9);
    again.restore(reader_of(files));
    expect_all_as_in(past, full_options(), Draw(again, past.spec(), 60));
    EXPECT_EQ(again.drawable(), part.drawable());
  }
}

// The part goes on, begins anew and overwrites everything, while another thread reads. What ThreadSanitizer looks at.
TEST(ReplaySnapshotTest, AnotherThreadWritesItWhileThePartGoesOn) {
  Past past = full_past();
  auto part = std::make_unique<ReplayPart>(past.spec(), 3, full_options(), 1);
  past.begin(*part);
  past.steps(*part, 100);
  for (int round = 0; round < 6; ++round) {
    Files now, files;
    ReplaySnapshot snapshot = part->snapshot();
    write(snapshot, now);
    std::jthread writer([&files, taken = std::move(snapshot)]() mutable {
      write(taken, files);
      taken.pieces.clear();
    });
    past.begin(*part);
    past.steps(*part, 70);
    (void)learn(*part, past.spec());
    if (round == 5) part.reset();
    writer.join();
    EXPECT_EQ(files, now) << "the snapshot may outlive the part";
  }
}

TEST(ReplaySnapshotTest, MemoryThatSnapshotsHoldIsCountedAndGoesWithThem) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1);
  past.begin(part);
  past.steps(part, 100);
  const std::uint64_t before = part.stats().bytes;
  ReplaySnapshot snapshot = part.snapshot();
  past.steps(part, 100);
  EXPECT_GT(part.stats().bytes, before + before / 2);
  snapshot.pieces.clear();
  past.steps(part, 100);
  EXPECT_LT(part.stats().bytes, before + before / 10);
}

TEST(ReplaySnapshotTest, AnotherLayoutIsRefused) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1);
  past.begin(part);
  past.steps(part, 20);
  Files files;
  write(part.snapshot(), files);
  const auto refused = [&](const ReplayOptions& options, const Spec& spec, int envs) {
    ReplayPart other(spec, envs, options, 1);
    return message_of<CheckpointError>([&] { other.restore(reader_of(files)); });
  };
  const auto changed = [](auto change) {
    ReplayOptions options = full_options();
    change(options);
    return options;
  };
  const auto says = [](const std::string& message) { return message.find("the replay part") != std::string::npos; };
  EXPECT_TRUE(says(refused(full_options(), mixed_spec(), 2)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.rows = 153; }), mixed_spec(), 3)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.n_step = 2; }), mixed_spec(), 3)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.ends = 61; }), mixed_spec(), 3)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.kept_ends = KeptEnds::kAll; }), mixed_spec(), 3)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.priorities.reset(); }), mixed_spec(), 3)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.leaves[1].padding = StackPadding::kZero; }), mixed_spec(), 3)));
  EXPECT_TRUE(says(refused(changed([](auto& o) { o.leaves[3].numbers = StoredNumbers::kAsGiven; }), mixed_spec(), 3)));
  EXPECT_FALSE(says(refused(full_options(), mixed_spec(), 3)));
}

// Every byte of the state and some of each array are changed in turn. The part is restored with what cannot be told
// from a true snapshot, or refuses it and is empty; it never reads or hands out what the spec does not allow.
TEST(ReplaySnapshotTest, ChangedBytesAreRefusedOrHarmless) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1);
  past.begin(part);
  past.steps(part, 80);
  Files files;
  write(part.snapshot(), files);
  Philox random(1);
  int refused = 0;
  for (const char* name : {"state", "steps.open", "steps.31", "ends.open", "ends.1"}) {
    ASSERT_TRUE(files.contains(name)) << name;
    for (auto& [array, bytes] : files.at(name)) {
      for (std::size_t at = 0; at < bytes.size(); at += array == "numbers" ? 1 : 1 + bytes.size() / 12) {
        const std::byte before = bytes[at];
        bytes[at] = static_cast<std::byte>(random.below(256));
        ReplayPart again(past.spec(), 3, full_options(), 1);
        try {
          again.restore(reader_of(files));
          if (again.drawable() > 0) {
            for (const std::int64_t action : Draw(again, past.spec(), 30).discrete) {
              ASSERT_GE(action, 0);
              ASSERT_LT(action, 3);
            }
          }
          past.make_step();
          again.append(past.actions(), past.arrays());
        } catch (const CheckpointError&) {
          ++refused;
          EXPECT_EQ(again.stats().rows, 0);
        } catch (const ConfigError& error) {
          EXPECT_NE(std::string(error.what()).find("is not a stack"), std::string::npos)
              << "only a step that does not go on from frames that were changed";
        }
        bytes[at] = before;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

// What a policy would take for an index, or a return for a number.
TEST(ReplaySnapshotTest, WhatNoEnvironmentCanHaveWrittenIsRefused) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1);
  past.begin(part);
  past.steps(part, 30);
  Files whole;
  write(part.snapshot(), whole);
  const auto refused = [&](const char* array, auto wrong) {
    Files files = whole;
    Past::Bytes& bytes = files.at("steps.7").at(array);
    std::memcpy(bytes.data() + bytes.size() - sizeof(wrong), &wrong, sizeof(wrong));
    ReplayPart again(past.spec(), 3, full_options(), 1);
    return message_of<CheckpointError>([&] { again.restore(reader_of(files)); });
  };
  const auto says = [](const std::string& message, const char* what) {
    return message.find(what) != std::string::npos ? "" : message;
  };
  EXPECT_EQ(says(refused("action", std::int64_t{3}), "an action of step 7 is not what Mixed-v0 allows"), "");
  EXPECT_EQ(says(refused("action", std::int64_t{-1}), "an action of step 7"), "");
  EXPECT_EQ(says(refused("observation.word", std::int64_t{3}), "an observation of step 7"), "");
  EXPECT_EQ(says(refused("observation.small", std::nanf("")), "an observation of step 7"), "");
  EXPECT_EQ(says(refused("reward", std::nan("")), "a reward of step 7"), "");
  EXPECT_EQ(says(refused("flags", std::uint8_t{4}), "a flag of step 7"), "");
  EXPECT_EQ(says(refused("mask", std::uint8_t{2}), "an action mask of step 7"), "");
}

TEST(ReplaySnapshotTest, EndsWithoutLastObservationsAreRefused) {
  Past past(plain_spec(), 1, 3, {.terminated = 0, .truncated = 0, .both = 0});
  const ReplayOptions options{.rows = 60, .ends = 4};
  ReplayPart part(past.spec(), 1, options, 1);
  past.begin(part);
  past.steps(part, 10);
  past.begin(part);  // step 9 is truncated
  past.steps(part, 10);
  Files whole;
  write(part.snapshot(), whole);
  for (const std::uint8_t end : {0, 1, 2, 3}) {
    for (const char* step : {"steps.9", "steps.10"}) {  // record 10 says how step 9 ended
      Files files = whole;
      files.at(step).at("flags")[0] = std::byte{end};
      ReplayPart again(past.spec(), 1, options, 1);
      const bool is_right = std::string(step) == "steps.10" ? end == 2 : end != 2;
      if (is_right) {
        EXPECT_NO_THROW(again.restore(reader_of(files))) << step << ", end " << int{end};
      } else {
        EXPECT_THROW(again.restore(reader_of(files)), CheckpointError) << step << ", end " << int{end};
      }
    }
  }
}

TEST(ReplaySnapshotTest, CutArraysAndMissingPiecesAreRefused) {
  Past past = full_past();
  ReplayPart part(past.spec(), 3, full_options(), 1);
  past.begin(part);
  past.steps(part, 80);
  Files whole;
  write(part.snapshot(), whole);
  for (const auto& [name, arrays] : whole) {
    ReplayPart again(past.spec(), 3, full_options(), 1);
    Files without = whole;
    without.erase(name);
    EXPECT_THROW(again.restore(reader_of(without)), CheckpointError) << name;
    for (const auto& entry : arrays) {
      Files cut = whole, longer = whole;
      Past::Bytes& bytes = cut[name][entry.first];
      ASSERT_FALSE(bytes.empty()) << name << ": " << entry.first;
      bytes.resize(bytes.size() - 1);
      EXPECT_THROW(again.restore(reader_of(cut)), CheckpointError) << entry.first;
      longer[name][entry.first].resize(entry.second.size() + 8);
      EXPECT_THROW(again.restore(reader_of(longer)), CheckpointError) << name << ": " << entry.first;
    }
    past.begin(again);
    EXPECT_EQ(again.drawable(), 0) << "a part that refused a snapshot can begin";
  }
}

}  // namespace
}  // namespace tandem::rl

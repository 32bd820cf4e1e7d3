// The protocol of SyncReplicas in every order of events, exhaustively.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "tandem/base/text.h"
#include "tandem/sync/token_protocol.h"

namespace tandem::sync {
namespace {

TokenProtocol all_joined(const TokenProtocol::Options& options) {
  TokenProtocol protocol(options);
  for (int worker = 0; worker < options.workers; ++worker) protocol.join(worker);
  return protocol;
}

// Membership changes are few, so that there are not too many orders; a step is taken and finished at any time.
struct Explored {
  TokenProtocol protocol;
  std::vector<GradientId> pending;  // accepted, by what the verdicts said
  std::vector<GradientId> taken;
  std::vector<std::int64_t> given = std::vector<std::int64_t>(3, 0), counted = std::vector<std::int64_t>(3, 0);
  int comings_and_goings = 0;
};

class Explorer {
 public:
  Explorer(const TokenProtocol::Options& options, int steps, int comings_and_goings)
      : options_(options), steps_(steps), most_changes_(comings_and_goings) {}

  void explore() { visit({.protocol = all_joined(options_), .pending = {}, .taken = {}}); }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  [[nodiscard]] std::size_t finished() const { return finished_; }

 private:
  // What decides about the future. Sequence numbers and totals do not.
  std::string key_of(const Explored& state) const {
    std::string key = state.protocol.describe();
    for (const auto* gradients : {&state.pending, &state.taken}) {
      std::array<int, 3> of{};
      for (const GradientId& each : *gradients) ++of[static_cast<std::size_t>(each.worker)];
      for (const int count : of) key += concat(",", count);
    }
    return concat(key, " after ", state.comings_and_goings);
  }

  void visit(const Explored& state) {
    if (state.protocol.step() == steps_ || ::testing::Test::HasFailure()) {
      ++finished_;
      return;
    }
    if (!seen_.insert(key_of(state)).second) return;
    bool goes_on = false, anybody = false;
    for (int worker = 0; worker < options_.workers; ++worker) {
      if (!state.protocol.is_present(worker)) continue;
      anybody = true;
      goes_on |= state.protocol.has_token(worker) ? try_offer(state, worker) : try_token(state, worker);
    }
    goes_on |= try_coordinator(state);
    EXPECT_TRUE(goes_on || !anybody) << "nobody can do anything: " << key_of(state);
    if (state.comings_and_goings < most_changes_) change_membership(state);
  }

  // Tokens of kShared: taken, given back by who goes or rests, and new ones of each step; nobody else's are touched.
  static void expect_tokens(const Explored& before, const Explored& after, int change) {
    EXPECT_EQ(after.protocol.queued(), before.protocol.queued() + change) << after.protocol.describe();
  }

  bool try_offer(Explored state, int worker) {
    const Explored before = state;
    const auto judgement = state.protocol.offer(worker);
    expect_tokens(before, state, 0);
    const auto index = static_cast<std::size_t>(worker);
    EXPECT_EQ(judgement.id, (GradientId{worker, state.given[index]++}));
    if (judgement.is_accepted) {
      EXPECT_EQ(judgement.step, state.protocol.step());
      state.pending.push_back(judgement.id);
    } else {
      EXPECT_GT(judgement.staleness, 0);
      ++state.counted[index];
    }
    check(state);
    visit(state);
    return true;
  }

  bool try_token(Explored state, int worker) {
    const Explored before = state;
    const auto token = state.protocol.take_token(worker);
    expect_tokens(before, state, token && options_.tokens == Tokens::kShared ? -1 : 0);
    if (!token) return false;
    EXPECT_LE(*token, state.protocol.step());
    EXPECT_TRUE(options_.tokens == Tokens::kShared || *token == state.protocol.step());
    visit(state);
    return true;
  }

  bool try_coordinator(Explored state) {
    if (!state.taken.empty()) {
      const Explored before = state;
      state.protocol.advance();
      EXPECT_EQ(state.protocol.step(), before.protocol.step() + 1);
      const int given = std::max(options_.total.value_or(options_.workers), options_.aggregate);
      expect_tokens(before, state, options_.tokens == Tokens::kShared ? given : 0);
      for (const GradientId& each : state.taken) ++state.counted[static_cast<std::size_t>(each.worker)];
      state.taken.clear();
    } else if (state.protocol.may_take()) {
      state.taken = state.protocol.take();
      EXPECT_EQ(state.taken, state.pending) << "each accepted gradient is in one step";
      state.pending.clear();
    } else {
      return false;
    }
    check(state);
    visit(state);
    return true;
  }

  // The token that it had. When that ends the rest of others, there are as many as they are besides.
  void expect_given_back(const Explored& before, const Explored& after, int worker) {
    int had_rested = 0, rest = 0;
    for (int each = 0; each < options_.workers; ++each) {
      had_rested += before.protocol.is_present(each) && before.protocol.is_resting(each) ? 1 : 0;
      rest += after.protocol.is_present(each) && after.protocol.is_resting(each) ? 1 : 0;
    }
    const int given = options_.tokens == Tokens::kShared && before.protocol.has_token(worker) ? 1 : 0;
    const int resting = had_rested + (after.protocol.is_present(worker) ? 1 : 0);  // or it rests now
    if (resting > 0 && rest == 0) {
      EXPECT_GE(after.protocol.queued(), before.protocol.queued() + given);
    } else {
      expect_tokens(before, after, given);
    }
  }

  void change_membership(const Explored& state) {
    for (int worker = 0; worker < options_.workers; ++worker) {
      Explored next = state;
      ++next.comings_and_goings;
      if (!state.protocol.is_present(worker)) {
        next.protocol.join(worker);
        visit(next);
        continue;
      }
      Explored dies = next, rests = next;
      next.protocol.leave(worker);
      expect_given_back(state, next, worker);
      visit(next);
      dies.protocol.die(worker);
      expect_given_back(state, dies, worker);
      visit(dies);
      if (state.protocol.is_resting(worker)) continue;
      rests.protocol.rest(worker);
      expect_given_back(state, rests, worker);
      visit(rests);
    }
  }

  // offered = applied + dropped + in flight, and the last of these are the pending and the taken.
  void check(const Explored& state) {
    for (int worker = 0; worker < options_.workers; ++worker) {
      const GradientTotals& totals = state.protocol.totals(worker);
      const auto index = static_cast<std::size_t>(worker);
      const auto is_its = [worker](const GradientId& each) { return each.worker == worker; };
      const auto in_flight = std::count_if(state.pending.begin(), state.pending.end(), is_its) +
                             std::count_if(state.taken.begin(), state.taken.end(), is_its);
      EXPECT_EQ(totals.offered, state.given[index]);
      EXPECT_EQ(totals.applied + totals.dropped, state.counted[index]);
      EXPECT_EQ(totals.in_flight(), in_flight);
    }
    EXPECT_EQ(state.protocol.accepted(), state.pending);
  }

  const TokenProtocol::Options options_;
  const int steps_, most_changes_;
  std::set<std::string> seen_;
  std::size_t finished_ = 0;
};

// Up to 3 workers and 3 steps, with as many comings and goings among 2, and one among 3: no order of events ends in a
// deadlock, loses a token or an accepted gradient, or counts one twice.
TEST(TokenOrdersTest, EveryOrderOfEventsGoesOnAndAddsUp) {
  std::size_t states = 0;
  for (const Tokens tokens : {Tokens::kOwn, Tokens::kShared}) {
    for (const Acceptance acceptance : {Acceptance::kWhole, Acceptance::kPerVariable}) {
      for (const int workers : {1, 2, 3}) {
        for (const int aggregate : {1, 2, 3, 4}) {
          Explorer explorer({.workers = workers, .aggregate = aggregate, .tokens = tokens, .acceptance = acceptance}, 3,
                            workers < 3 ? 3 : 1);
          explorer.explore();
          EXPECT_GT(explorer.finished(), 0U);
          states += explorer.states();
          ASSERT_FALSE(HasFailure()) << workers << " workers, " << aggregate << " gradients a step, "
                                     << (tokens == Tokens::kOwn ? "own" : "shared") << " tokens, acceptance "
                                     << static_cast<int>(acceptance);
        }
      }
    }
  }
  RecordProperty("states", static_cast<int>(states));
  EXPECT_GT(states, 10'000U);
}

}  // namespace
}  // namespace tandem::sync

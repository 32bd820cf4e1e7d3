// The protocol of SyncReplicas in every order of events, exhaustively.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/testing/address_sanitizer.h"
#include "tandem/base/text.h"
#include "tandem/sync/variables/token_protocol.h"

namespace tandem::sync {
namespace {

TokenProtocol all_joined(int workers, const SyncReplicasOptions& options) {
  TokenProtocol protocol(workers, options);
  for (int worker = 0; worker < workers; ++worker) protocol.join(worker);
  return protocol;
}

using CountOfEach = std::vector<std::int64_t>;  // by worker

// What was counted beside the protocol.
struct Counted {
  CountOfEach applied = CountOfEach(3, 0), dropped = CountOfEach(3, 0);
};

// What a second process keeps of a step before there are tokens of the next.
struct KeptElsewhere {
  TokenProtocol::Record record;
  Counted counted;
};

// Membership changes are few, so that there are not too many orders; a step is taken and finished at any time.
struct Explored {
  TokenProtocol protocol;
  KeptElsewhere kept{};
  std::vector<GradientId> pending{};  // accepted, by what the verdicts said
  std::vector<GradientId> taken{};
  CountOfEach given = CountOfEach(3, 0), lost = CountOfEach(3, 0);
  CountOfEach told = CountOfEach(3, 0);  // that they are dropped, which a worker learns with its next token
  Counted counted{};
  int comings_and_goings = 0, deaths_of_owner = 0;
};

class Explorer {
 public:
  struct Most {
    int steps = 3, comings_and_goings = 1, deaths_of_owner = 0;
  };
  Explorer(int workers, const SyncReplicasOptions& options, const Most& most)
      : workers_(workers), options_(options), most_(most) {}

  void explore() {
    const TokenProtocol begun = all_joined(workers_, options_);
    visit({.protocol = begun, .kept = {.record = begun.record(), .counted = {}}});
    while (!frontier_.empty()) {
      const Explored state = std::move(frontier_.back());
      frontier_.pop_back();
      go_on_from(state);
    }
  }
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
    if (most_.deaths_of_owner > 0) {
      for (std::size_t i = 0; i < state.kept.record.seats.size(); ++i) {
        key += concat(state.kept.record.seats[i].is_present != 0 ? "; kept" : "; gone",
                      state.counted.dropped[i] > state.told[i], state.kept.counted.dropped[i] > state.told[i]);
      }
    }
    return concat(key, " after ", state.comings_and_goings, " and ", state.deaths_of_owner);
  }

  void visit(const Explored& state) {
    if (state.protocol.step() == most_.steps || ::testing::Test::HasFailure()) {
      ++finished_;
      return;
    }
    if (seen_.insert(key_of(state)).second) frontier_.push_back(state);
  }

  void go_on_from(const Explored& state) {
    bool goes_on = false, anybody = false;
    for (int worker = 0; worker < workers_; ++worker) {
      if (!state.protocol.is_present(worker)) continue;
      anybody = true;
      goes_on |= state.protocol.has_token(worker) ? try_offer(state, worker) : try_token(state, worker);
    }
    goes_on |= try_coordinator(state);
    EXPECT_TRUE(goes_on || !anybody) << "nobody can do anything: " << key_of(state);
    if (state.comings_and_goings < most_.comings_and_goings) change_membership(state);
    if (state.deaths_of_owner < most_.deaths_of_owner) kill_owner(state);
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
      ++state.counted.dropped[index];
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
    state.told[static_cast<std::size_t>(worker)] = state.counted.dropped[static_cast<std::size_t>(worker)];
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
      const int given =
          std::max(options_.total_num_replicas.value_or(workers_), options_.replicas_to_aggregate.value_or(workers_));
      expect_tokens(before, state, options_.tokens == Tokens::kShared ? given : 0);
      for (const GradientId& each : state.taken) ++state.counted.applied[static_cast<std::size_t>(each.worker)];
      state.taken.clear();
      state.kept = {.record = state.protocol.record(), .counted = state.counted};
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
    for (int each = 0; each < workers_; ++each) {
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
    for (int worker = 0; worker < workers_; ++worker) {
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

  // The process that decides dies, and with it the first worker; where a step is being made, before or after another
  // process has it. That one goes on from what it has, and each worker that lives says there what it knows.
  void kill_owner(const Explored& state) {
    visit_taken_over(state, state.kept);
    if (state.taken.empty()) return;
    KeptElsewhere newer{.record = state.protocol.record(), .counted = state.counted};
    for (const GradientId& each : state.taken) ++newer.counted.applied[static_cast<std::size_t>(each.worker)];
    EXPECT_EQ(newer.record.step, state.kept.record.step + 1);
    visit_taken_over(state, newer);
  }

  void visit_taken_over(const Explored& state, const KeptElsewhere& kept) {
    Explored next{.protocol = TokenProtocol(workers_, options_), .kept = kept};
    ++(next.deaths_of_owner = state.deaths_of_owner);
    next.comings_and_goings = state.comings_and_goings;
    next.protocol.restore(kept.record);
    EXPECT_GE(next.protocol.step(), state.protocol.step()) << "the step goes back";
    next.counted = kept.counted;
    next.given = state.given;
    next.told = state.told;
    for (int worker = 0; worker < workers_; ++worker) {
      const auto index = static_cast<std::size_t>(worker);
      if (worker == first_present(state)) {
        next.given[index] = kept.record.seats[index].totals.offered;  // as far as anybody knows
        next.told[index] = kept.counted.dropped[index];
      } else {
        next.protocol.recall(worker, state.given[index], state.told[index]);
        next.counted.dropped[index] = std::max(kept.counted.dropped[index], state.told[index]);
        if (kept.record.seats[index].is_present != 0) next.protocol.join(worker);
        bring_up_to_date(state, next, worker);
      }
      next.lost[index] = next.given[index] - next.counted.applied[index] - next.counted.dropped[index];
      EXPECT_GE(next.lost[index], 0);
    }
    check(next);
    visit(next);
  }

  // What it did after the record was made, or was about to do.
  static void bring_up_to_date(const Explored& before, Explored& next, int worker) {
    const bool was_present = before.protocol.is_present(worker), is_present = next.protocol.is_present(worker);
    if (is_present && !was_present) next.protocol.leave(worker);
    if (was_present && !is_present) next.protocol.join(worker);
    if (was_present && before.protocol.is_resting(worker)) next.protocol.rest(worker);
  }

  [[nodiscard]] int first_present(const Explored& state) const {
    int worker = 0;
    while (worker < workers_ && !state.protocol.is_present(worker)) ++worker;
    return worker;
  }

  // offered = applied + dropped + in flight, and the last of these are the pending and the taken, and what was lost
  // with the process that decided.
  void check(const Explored& state) {
    for (int worker = 0; worker < workers_; ++worker) {
      const GradientTotals& totals = state.protocol.totals(worker);
      const auto index = static_cast<std::size_t>(worker);
      const auto is_its = [worker](const GradientId& each) { return each.worker == worker; };
      const auto in_flight = std::count_if(state.pending.begin(), state.pending.end(), is_its) +
                             std::count_if(state.taken.begin(), state.taken.end(), is_its);
      EXPECT_EQ(totals.offered, state.given[index]);
      EXPECT_EQ(totals.applied, state.counted.applied[index]);
      EXPECT_EQ(totals.dropped, state.counted.dropped[index]);
      EXPECT_EQ(totals.in_flight(), in_flight + state.lost[index]);
    }
    EXPECT_EQ(state.protocol.accepted(), state.pending);
  }

  const int workers_;
  const SyncReplicasOptions options_;
  const Most most_;
  std::set<std::string> seen_;
  std::vector<Explored> frontier_;  // seen, and where they lead to not yet
  std::size_t finished_ = 0;
};

// Explores all choices of options for up to 3 workers; how many states there are.
std::size_t explore_all(const std::function<Explorer::Most(int workers)>& most_of) {
  std::size_t states = 0;
  for (const Tokens tokens : {Tokens::kOwn, Tokens::kShared}) {
    for (const Acceptance acceptance : {Acceptance::kWhole, Acceptance::kPerVariable}) {
      for (const int workers : {1, 2, 3}) {
        for (const int aggregate : {1, 2, 3, 4}) {
          Explorer explorer(workers, {.replicas_to_aggregate = aggregate, .acceptance = acceptance, .tokens = tokens},
                            most_of(workers));
          explorer.explore();
          EXPECT_GT(explorer.finished(), 0U);
          states += explorer.states();
          if (!::testing::Test::HasFailure()) continue;
          ADD_FAILURE() << workers << " workers, " << aggregate << " gradients a step, "
                        << (tokens == Tokens::kOwn ? "own" : "shared") << " tokens, acceptance "
                        << static_cast<int>(acceptance);
          return states;
        }
      }
    }
  }
  ::testing::Test::RecordProperty("states", static_cast<int>(states));
  return states;
}

// Under AddressSanitizer the same code in fewer orders.
#ifdef TANDEM_ADDRESS_SANITIZER
constexpr int kFewerComingsAndGoings = 1;
#else
constexpr int kFewerComingsAndGoings = 0;
#endif

// Up to 3 workers and 3 steps, with as many comings and goings among 2, and one among 3: no order of events ends in a
// deadlock, loses a token or an accepted gradient, or counts one twice.
TEST(TokenOrdersTest, EveryOrderOfEventsGoesOnAndAddsUp) {
  EXPECT_GT(explore_all([](int workers) -> Explorer::Most {
              return {.comings_and_goings = (workers < 3 ? 3 : 1) - kFewerComingsAndGoings};
            }),
            10'000U);
}

// The process that decides dies at any place of them: the one that has kept the steps goes on from there, no step goes
// back, and what was on its way is in flight for ever.
TEST(TokenOrdersTest, TheDeathOfTheOwnerAtAnyPlaceGoesOnAndAddsUp) {
  EXPECT_GT(explore_all([](int workers) -> Explorer::Most {
              return {.comings_and_goings = workers < 3 ? 2 - kFewerComingsAndGoings : 0,
                      .deaths_of_owner = std::max(0, workers - 1 - kFewerComingsAndGoings)};
            }),
            10'000U);
}

}  // namespace
}  // namespace tandem::sync

// sync/token_protocol.h: whose gradients make up the next step, and who may compute for it: the protocol of
// SyncReplicas as a state machine, without tensors, threads or waits.
//
// A worker computes one gradient a token. A token names the step whose values its gradient is made with. A gradient for
// the step that is open is accepted, one for an older step is dropped. When a quorum is accepted the gradients are
// taken; when they have been applied the step number advances and tokens of the new step are given out.
//
// With Tokens::kOwn each worker has a token of every step that is its own, so nobody can spend the token of a slow
// worker and compute what comes too late. Tokens beyond these, when fewer workers than gradients make up a step, go to
// whoever asks first: there are always just as many as the quorum lacks. With kShared all tokens are in one queue, in
// which they also age, as in TensorFlow.
//
// Nobody counts on a worker that leaves, dies or rests. Where no more gradients than workers are asked for, the quorum
// is at most one of each that works; otherwise it stays, and those that work give more.
//
// Threads: caller-locks. Nothing here waits. Errors: ConfigError from the constructor; InvariantError for calls out of
// order.
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tandem/sync/gradient_account.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// A gradient of the run. Sequence numbers of a worker begin with 0 and go on when it comes back.
struct GradientId {
  int worker = 0;
  std::int64_t sequence = 0;
  friend auto operator<=>(const GradientId&, const GradientId&) = default;
};

class TokenProtocol {
 public:
  /// `workers`: as many as there can be at all. Throws ConfigError when an option is out of range.
  TokenProtocol(int workers, const SyncReplicasOptions& options);

  // --- membership ---
  /// A worker begins, comes late or comes back. Nobody is there at first.
  void join(int worker);
  /// It offers nothing more. What it gave stays. When the last one leaves, the gradients that are there make up a step.
  void leave(int worker);
  /// The same without its consent, and without that step.
  void die(int worker);
  /// It waits for all others that are there to rest, too, outside of this protocol: before a collective, say. Until
  /// then nobody counts on it, and it gets no token. When all rest, all work again.
  void rest(int worker);
  [[nodiscard]] bool is_present(int worker) const { return seat(worker).place != Place::kAway; }
  [[nodiscard]] bool is_resting(int worker) const { return seat(worker).place == Place::kResting; }

  // --- going on elsewhere ---
  struct SeatRecord {
    GradientTotals totals;
    std::int64_t is_present = 0;
  };
  /// All that another process needs to go on when this one has died.
  struct Record {
    std::int64_t step = 0;
    std::vector<SeatRecord> seats;  // of each worker
  };
  /// As it will be when the gradients that are taken have been applied, or, when none are, as it is. What is accepted
  /// for the step after that is not in it: when this process dies it is in flight for ever.
  [[nodiscard]] Record record() const;
  /// Goes on from a record. Before anybody joined; who was present, and lives, is to join then.
  void restore(const Record& record);
  /// A worker that comes from the process which has died says how many gradients it offered there, and of how many it
  /// was told that they are dropped. Those of which neither it nor the record knows the end are in flight for ever.
  void recall(int worker, std::int64_t offered, std::int64_t dropped);

  // --- a worker's turn ---
  /// A token, where one is to be had: the step that the next gradient is for. The worker has none.
  [[nodiscard]] std::optional<std::int64_t> take_token(int worker);
  [[nodiscard]] bool has_token(int worker) const { return seat(worker).place == Place::kComputing; }
  struct Judgement {
    GradientId id;
    bool is_accepted = false;
    std::int64_t step = 0;       // that it is accepted for, or that it came too late for
    std::int64_t staleness = 0;  // steps between that and the gradient's own; 0 when accepted
  };
  /// Spends the worker's token.
  Judgement offer(int worker);

  // --- the coordinator's turn ---
  /// Whether the open step has its quorum.
  [[nodiscard]] bool may_take() const { return is_complete_; }
  /// The accepted gradients, in the order of arrival. Closes the step: what is offered from here on is late for it.
  [[nodiscard]] std::vector<GradientId> take();
  /// They are applied: the step number goes up, and there are tokens of the new step.
  void advance();

  /// Steps that were applied.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Starts the count of steps elsewhere. Before anybody joined, or after all have left. Throws InvariantError when
  /// lower.
  void set_step(std::int64_t step);
  [[nodiscard]] const std::vector<GradientId>& accepted() const { return accepted_; }
  [[nodiscard]] int quorum() const;
  /// Tokens of all steps in the queue of kShared.
  [[nodiscard]] int queued() const { return static_cast<int>(queue_.size()); }
  /// The step and what each worker has, in a line: all that the future depends on but sequence numbers.
  [[nodiscard]] std::string describe() const;
  /// Those that have a token or may have one, and have given nothing to the open step.
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] const GradientTotals& totals(int worker) const { return seat(worker).totals; }

 private:
  // kReady: has no token and would like one. kComputing: has one.
  enum class Place { kAway, kReady, kComputing, kResting };
  enum class Held { kOwn, kOther };
  struct Seat {
    Place place = Place::kAway;
    std::int64_t token = 0;     // while computing
    Held held = Held::kOwn;     // whether that token is the worker's own
    bool has_own_left = false;  // of the open step
    std::int64_t sequence = 0;  // of the next gradient
    GradientTotals totals;
  };
  [[nodiscard]] Seat& seat(int worker) { return seats_[static_cast<std::size_t>(worker)]; }
  [[nodiscard]] const Seat& seat(int worker) const { return seats_[static_cast<std::size_t>(worker)]; }
  [[nodiscard]] int workers() const { return static_cast<int>(seats_.size()); }
  [[nodiscard]] int count(Place place) const;
  [[nodiscard]] int working() const { return count(Place::kReady) + count(Place::kComputing); }
  [[nodiscard]] bool lacks_tokens() const;
  void give_back(Seat& it);
  void go_away(int worker);
  void end_rest();
  void settle();

  const int aggregate_;  // gradients of a step
  const int total_;      // workers that a step is planned for
  const Tokens tokens_;
  const Acceptance acceptance_;
  std::vector<Seat> seats_;
  std::deque<std::int64_t> queue_;  // of kShared
  std::int64_t step_ = 0;
  std::vector<GradientId> accepted_;
  std::vector<GradientId> taken_;  // not applied yet
  bool is_complete_ = false;       // from the quorum to take()
  bool is_taken_ = false;          // between take() and advance()
  bool has_ended_ = false;         // the last worker has left
};

}  // namespace tandem::sync

// sync/token_protocol.h: the protocol of SyncReplicas as a state machine, without tensors, threads or waits. It decides
// whose gradients make up the next step, and which worker may compute for it.
//
// A worker computes one gradient for each token. A token names the step whose values the gradient is made with. A
// gradient for the open step is accepted; one for an older step is dropped. When as many as the quorum are accepted,
// the gradients are taken. When they have been applied, the step number advances and tokens of the new step are given
// out.
//
// With Tokens::kOwn each worker has a token of its own in every step, so no other can spend the token of a slow worker
// and compute a gradient that comes too late. When a step takes more gradients than there are workers, further tokens
// go to the workers that ask first: always just as many as the quorum lacks. With kShared all tokens are in one queue,
// in which they also age, as in TensorFlow.
//
// The quorum does not count on a worker that has left, died or rests. Where a step takes no more gradients than there
// are workers, the quorum is at most one gradient of each that works; otherwise it stays, and those that work give
// more.
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

#include "tandem/sync/strategy.h"
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
  /// A worker begins, comes late or comes back. At first none is present.
  void join(int worker);
  /// A worker offers nothing more; what it gave stays. When the last one leaves, the accepted gradients make up a step.
  void leave(int worker);
  /// A worker has died: as leave(), but the death of the last one makes no step.
  void die(int worker);
  /// A worker waits, outside of this protocol (before a collective, say), until all others that are present rest, too.
  /// Until then the quorum does not count on it, and it gets no token. When all rest, all work again.
  void rest(int worker);
  [[nodiscard]] bool is_present(int worker) const { return seat(worker).place != Place::kAway; }
  [[nodiscard]] bool is_resting(int worker) const { return seat(worker).place == Place::kResting; }

  // --- going on elsewhere ---
  struct SeatRecord {
    GradientTotals totals;
    std::int64_t is_present = 0;
  };
  /// Everything that another process needs to go on when this one has died.
  struct Record {
    std::int64_t step = 0;
    std::vector<SeatRecord> seats;  // of each worker
  };
  /// Returns the record as it will be when the taken gradients have been applied; when none are taken, as it is.
  /// Gradients accepted for the step after that are not part of it: when this process dies, they are in flight for
  /// ever.
  [[nodiscard]] Record record() const;
  /// Goes on from a record. Before any worker has joined; those that were present, and live, have to join afterwards.
  void restore(const Record& record);
  /// A worker that comes from the process which has died says how many gradients it offered there, and how many of them
  /// it was told are dropped. Gradients whose end neither the worker nor the record knows are in flight for ever.
  void recall(int worker, std::int64_t offered, std::int64_t dropped);

  // --- a worker's turn ---
  /// Gives a worker that has no token one, if there is one for it: the step that its next gradient is for.
  [[nodiscard]] std::optional<std::int64_t> take_token(int worker);
  [[nodiscard]] bool has_token(int worker) const { return seat(worker).place == Place::kComputing; }
  struct Judgement {
    GradientId id;
    bool is_accepted = false;
    std::int64_t step = 0;       // for which the gradient is accepted, or came too late
    std::int64_t staleness = 0;  // steps between that step and the gradient's own; 0 when accepted
  };
  /// Spends the worker's token.
  Judgement offer(int worker);

  // --- the coordinator's turn ---
  /// Whether the open step has its quorum.
  [[nodiscard]] bool may_take() const { return is_complete_; }
  /// The accepted gradients, in the order of arrival. Closes the step: what is offered from here on is late for it.
  [[nodiscard]] std::vector<GradientId> take();
  /// The taken gradients have been applied: the step number goes up, and there are tokens of the new step.
  void advance();

  /// Steps that were applied.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Starts the count of steps at another number. Before any worker has joined, or after all have left. Throws
  /// InvariantError when the number is lower.
  void set_step(std::int64_t step);
  [[nodiscard]] const std::vector<GradientId>& accepted() const { return accepted_; }
  [[nodiscard]] int quorum() const;
  /// Tokens of all steps in the queue of kShared.
  [[nodiscard]] int queued() const { return static_cast<int>(queue_.size()); }
  /// The step and what each worker has, in a line: all that the future depends on but sequence numbers.
  [[nodiscard]] std::string describe() const;
  /// The workers that have a token, or may have one, and have given nothing to the open step.
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] const GradientTotals& totals(int worker) const { return seat(worker).totals; }

 private:
  // kReady: has no token and may ask for one. kComputing: has one.
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

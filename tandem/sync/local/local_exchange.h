// sync/local/local_exchange.h: the exchanges between replicas that make optimizer steps of their own: local SGD (Stich
// 2019, "Local SGD Converges Fast and Communicates Little"), DiLoCo (Douillard et al. 2023, arXiv 2311.08105) and
// Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512).
//
// All replicas know the agreed parameters: those after the last exchange. A replica's way is how far its own have come
// from there. An exchange forms the mean way, weighted by the rows that each replica has trained on meanwhile, makes
// the agreed parameters of the next round of it (Outer), and puts these in place of the replica's own. With fragments,
// an exchange is of one part of the parameters, in turn. With an overlap, the replica goes on while sums travel, and
// keeps what its steps do meanwhile: own + (agreed - own at the start).
//
// Each exchange begins with a meeting, in which the replicas tell what they are doing. One that has come to agree(),
// settle() or leave() takes part in the exchanges of those that still make steps, so replicas may make different
// numbers of them. An exchange is over as a whole or not at all: where a member of the group is lost in it, those that
// are left may enter() another group.
//
// Sums go along the tree over the replicas: same bits on any topology of as many replicas, but not on another number.
//
// Threads: single-thread, the replica's. Blocking: what takes `limits` waits for all replicas until then;
// exchange_due() only when an exchange is due. Errors: those of the group; RunError when a parameter is not finite.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// What the exchanges of a replica came to.
struct ExchangeTotals {
  std::int64_t exchanges = 0;  // of a fragment
  std::int64_t agreements = 0;
  std::int64_t bytes = 0;   // that this replica handed to collectives
  double wait_seconds = 0;  // in meetings and for sums
};

class LocalExchange {
 public:
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order, and all give the same
  /// options. Throws ConfigError when an option is out of range.
  LocalExchange(Replica& replica, comm::Group& group, const LocalStepsOptions& options);

  /// From now on the replica's parameters, equal on all, are the agreed ones, and no step was made. Waits for nobody.
  void begin();
  /// The replica has made an optimizer step of `rows` rows, perhaps 0.
  void count_step(double rows);
  /// Ends and begins the exchanges that are due. Where it throws, nothing of this replica's way is lost: it may be
  /// called again after enter().
  void exchange_due(const Limits& limits);
  /// Returns when all others have called agree(), settle() or leave(): all parameters are exchanged, in full, and
  /// buffers become means by rows, those that are not floating replica 0's. A no-op where nobody has made a step since.
  void agree(const Limits& limits) {
    while (!try_agree(limits)) continue;
  }
  /// The same; and the optimizer's moments become means by the rows since the last time, step counts those of the
  /// replica that has most.
  void settle(const Limits& limits) {
    while (!come_together(Call::kSettle, limits)) continue;
  }
  /// Takes part in the others' exchanges until all have left, and agrees with them.
  void leave(const Limits& limits) {
    while (!try_leave(limits)) continue;
  }
  /// agree() and leave() in single meetings, each until its own `limits`. False: the replica has taken part in the
  /// others' exchange, or agreed with those that have not left; the caller lets in who asked, and calls again.
  [[nodiscard]] bool try_agree(const Limits& limits) { return come_together(Call::kAgree, limits); }
  [[nodiscard]] bool try_leave(const Limits& limits) { return come_together(Call::kLeave, limits); }

  /// From now on the exchanges are between the members of `group`: some of those before, and perhaps newcomers, who say
  /// kNothing. Who knows of the newest exchange keeps its own parameters; all others take the agreed ones from there,
  /// and what they did beside it is lost. Collective.
  enum class Knows { kNothing, kItsOwn };
  void enter(comm::Group& group, Knows knows, const Limits& limits);
  /// An exchange that is under way ends.
  void finish(const Limits& limits);
  /// Steps of the run: since begin(), as the replica counts them that knew of the newest exchange at enter().
  [[nodiscard]] std::int64_t steps() const { return run_steps_; }
  /// Exchanges and agreements of the run that are over.
  [[nodiscard]] std::int64_t over() const { return over_; }

  /// Told to all in each meeting; asked() says whether anybody told it in the last one. After a meeting in which all
  /// have left, nobody has asked.
  void ask(bool wish) { wishes_ = wish; }
  [[nodiscard]] bool asked() const { return asked_; }

  /// What has to be kept besides the replica's state, in place: the outer optimizer's momentum, under
  /// "outer.momentum.0" ... by flat buffer. Empty under kAverage.
  [[nodiscard]] model::NamedTensors besides() const;
  [[nodiscard]] const ExchangeTotals& totals() const { return totals_; }

 private:
  // A part of one flat buffer. The tensors are views, but for `sum`, which lies in the group's memory, `started` and
  // `rest`.
  struct Piece {
    std::size_t buffer = 0;
    std::int64_t begin = 0;  // its first element
    at::Tensor own, agreed;
    at::Tensor sum;              // float32, or the parameters' dtype if that is wider
    at::Tensor started;          // with an overlap: the own parameters at the start
    at::Tensor momentum;         // under kNesterov
    at::Tensor rest, next_rest;  // on a rounded wire: what was rounded off; when the exchange under way is over
  };
  enum class Call { kStep, kAgree, kSettle, kLeave };
  struct Meeting {
    std::vector<Call> calls;                // by replica
    std::vector<std::vector<double>> rows;  // by fragment and replica, since the fragment's last exchange
    double share = 0;                       // of this replica in the rows since all settled
    bool someone_has_rows = false;          // since then
    [[nodiscard]] bool has(Call call) const;
    [[nodiscard]] bool all(Call call) const;
  };
  void make_pieces();
  void cut(std::size_t buffer);
  [[nodiscard]] std::int64_t next_due() const { return (begun_ + 1) * options_.every / options_.fragments; }
  [[nodiscard]] Meeting meet(Call mine, const Limits& limits);
  // One meeting. Whether the call is done.
  [[nodiscard]] bool come_together(Call call, const Limits& limits);
  // One exchange, which finish() ends.
  void start(const Meeting& meeting, const Limits& limits);
  void undo_start();
  void conclude(const Meeting& meeting, const Limits& limits);
  // The parts of these.
  void take_way(Piece& piece) const;
  [[nodiscard]] comm::Pending sum_up(const at::Tensor& sum, double share);
  void sum_rounded(const std::vector<double>& rows, Piece& piece, const Limits& limits);
  void move_agreed(Piece& piece) const;
  void average(const at::Tensor& tensor, double share, const Limits& limits);
  void take_state(int root, bool is_behind, const Limits& limits);
  void count_steps_of_others();
  void average_buffers(double share, const Limits& limits);
  void average_moments(double share, const Limits& limits);

  Replica& replica_;
  comm::Group* group_;
  const LocalStepsOptions options_;
  bool is_alone_;                             // the mean way is its own: no exchange
  std::vector<at::Tensor> agreed_, momenta_;  // by flat buffer
  std::vector<std::vector<Piece>> fragments_;
  std::vector<double> rows_;               // by fragment, since its last exchange
  double rows_in_all_ = 0;                 // since all settled
  std::int64_t steps_ = 0;                 // since the last agreement
  std::int64_t begun_ = 0;                 // exchanges since the last agreement
  std::int64_t run_steps_ = 0, over_ = 0;  // steps of the run; exchanges and agreements that are over, since begin()
  bool wishes_ = false, asked_ = false;
  struct UnderWay {
    std::size_t fragment = 0;
    std::int64_t over = 0;                 // the step after which it ends
    double rows = 0;                       // that count for this replica
    std::vector<comm::Pending> pending{};  // empty on a rounded wire: the sums are in place
    bool is_void = false;                  // begin() came meanwhile: it ends and changes nothing
  };
  std::optional<UnderWay> under_way_;
  ExchangeTotals totals_;
};

}  // namespace tandem::sync

// sync/local_steps.h: a training loop of your own on ranks that exchange seldom, over links as slow as the internet,
// and that may die, fall behind and come back.
//
//     sync::LocalSteps local(model, {.every = 50});
//     torch::optim::AdamW optimizer(model->parameters(), 1e-3);
//     while (local.steps() < 10'000) {
//       const Batch batch = draw(data, generator);                  // the rank's own
//       optimizer.zero_grad();
//       loss_of(*model, batch).backward();
//       optimizer.step();
//       local.step(batch.rows);                                     // exchanges after every 50th
//     }
//     local.finish();                                               // all ranks hold the same parameters
//
// Each rank makes optimizer steps of its own. After every so many, the ranks go on from the mean of their parameters,
// weighted by rows (local SGD), or make a step of an outer optimizer (DiLoCo): sync/local/local_exchange.h has both,
// with their sources. The optimizer is the loop's own, and its moments are never exchanged.
//
// Who is missing is left out. A rank that dies is missed at the next exchange, and the others go on without it; what it
// did since the last exchange is lost. So is what a rank did that did not come to an exchange within `late`; it comes
// back by itself, with the parameters of the others. A process that the launcher starts in place of a dead one begins
// with the parameters, and at the step, of the others: `tandem launch --on-death replace`. steps() counts for all.
// This needs a launcher that leaves the others alive, and a store that outlives its ranks; where the launcher ends all
// (torchrun, mpirun), a death is an error.
//
// With an overlap or fragments, exchanges travel while the next steps are made.
//
// Threads: one. Ownership: shares the module, whose parameters become views of flat memory; the optimizer may be made
// before or after. Blocking: the constructor, step() when an exchange is due, agree() and finish() wait for the other
// ranks; an exchange at most `late`, if ranks may be missing. Errors: ConfigError for options out of range, and for
// ranks whose options or models differ; RunError when too few ranks are left to go on (comm/store/rendezvous.h), when a
// parameter is not finite, and when the others have finished without this rank.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/comm/departure.h"
#include "tandem/comm/elastic_world.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/world.h"
#include "tandem/sync/local/local_exchange.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy_options.h"

namespace torch::nn {
class Module;
}

namespace tandem::sync {

/// How ranks that make local steps meet.
struct LocalRanks {
  comm::LauncherEnvironment me = comm::launcher_environment();
  comm::WorldOptions world = {};
  Clock::duration late = std::chrono::minutes(1);  // the longest wait for a rank at an exchange
  // For all ranks at the begin, to let a rank in, for each exchange in finish(), and where none may be missing.
  Clock::duration patience = std::chrono::minutes(5);
  std::function<void(const std::string& line)> say = {};  // is told who is lost and who joins
};

class LocalSteps {
 public:
  /// Meets the other ranks; all start from rank 0's parameters and buffers, and give the same options. A process that
  /// was started in place of a dead one takes the parameters of those that train. `options.mean` has no effect.
  explicit LocalSteps(std::shared_ptr<torch::nn::Module> module, const LocalStepsOptions& options = {},
                      const LocalRanks& ranks = {});
  /// Says so where it ends after steps, without finish(), and no exception ends it.
  ~LocalSteps();
  LocalSteps(const LocalSteps&) = delete;
  LocalSteps& operator=(const LocalSteps&) = delete;

  /// The rank has made an optimizer step of `rows` rows, by which its part of the mean is weighed.
  void step(double rows = 1);
  /// All ranks, which all call it, get equal parameters and buffers now: before an evaluation or a checkpoint of one of
  /// them.
  void agree();
  /// This rank makes no more steps. Takes part in the others' exchanges until all have finished; parameters and buffers
  /// are then equal.
  void finish();

  /// Steps that the run has come to, since its begin: this rank's own, or, when it joined, those of the others then.
  [[nodiscard]] std::int64_t steps() const { return exchange_->steps(); }
  /// This rank among those that train now, and their number: they change where ranks are lost and come.
  [[nodiscard]] int rank() const { return world_.rank; }
  [[nodiscard]] int size() const { return world_.size; }
  [[nodiscard]] const ExchangeTotals& totals() const { return exchange_->totals(); }
  [[nodiscard]] Replica& replica() { return *replica_; }

 private:
  void open_first();
  void go_on_without(const std::string& why);
  [[nodiscard]] std::optional<comm::World> meet();
  void enter(LocalExchange::Knows knows);
  // Makes a call of the exchange, again and again while ranks are lost in it.
  template <typename Call>
  void surviving(const Call& call);
  // Makes a call of one meeting, with limits of its own, until it is done. Who waits is let in between two of them.
  template <typename Call>
  void until_done(const Call& call);
  void let_in_who_waits();
  void count_meeting();
  [[nodiscard]] Limits limits() const;
  void say(const std::string& line) const;

  const LocalRanks ranks_;
  const LocalStepsOptions options_;
  std::optional<comm::ElasticWorld> elastic_;  // where ranks may be missing
  std::shared_ptr<comm::Store> first_store_;   // rank 0 may host it
  comm::World world_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<LocalExchange> exchange_;
  std::int64_t met_at_ = -1;  // steps and exchanges at the last meeting
  int fruitless_ = 0;         // meetings in a row without a step or an exchange between
  const comm::UnderWay under_way_;
  bool has_finished_ = false;
  bool lacks_state_ = false;  // it joins, or the others have gone on without it, and it has not entered since
};

}  // namespace tandem::sync

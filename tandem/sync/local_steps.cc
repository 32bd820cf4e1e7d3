#include "tandem/sync/local_steps.h"

#include <torch/nn/module.h>

#include <cmath>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/sync/rank_placement.h"

// Plan: step() counts and lets the exchange do what is due. An error that says that others are lost leads to
// go_on_without(): the world is thrown away, those that are left meet, open a new one and enter the exchange with it;
// then the call is made again. Someone who waits to be let in is told to all in the meeting of an exchange, so that all
// meet after it: those in step(), and those that wait in agree() or finish(), which end the exchange in the same way.
namespace tandem::sync {
namespace {

constexpr int kMostFruitless = 5;

// As the ranks compare it.
std::string text_of(const LocalStepsOptions& options) {
  return concat("every ", options.every, ", outer ", static_cast<int>(options.outer), " with a rate of ",
                options.outer_lr, " and a momentum of ", options.outer_momentum, ", ", options.fragments,
                " fragments, overlap ", options.overlap, ", wire ", static_cast<int>(options.wire));
}

void require_same_options(const LocalStepsOptions& options, comm::Group& group, const Limits& limits) {
  const std::vector<std::string> all = gather_text(group, text_of(options), limits);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      throw ConfigError(
          concat("the ranks give LocalSteps other options: rank 0 ", all[0], "; rank ", rank, " ", all[rank]));
  }
}

// Of an error of a group: without the table of its members.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

LocalSteps::LocalSteps(std::shared_ptr<torch::nn::Module> module, const LocalStepsOptions& options,
                       const LocalRanks& ranks)
    : ranks_(ranks), options_(options) {
  require_none(faults_of(options));
  const Placement placement = rank_placement(module, ranks.me.rank, ranks.me.world_size, "LocalSteps");
  if (ranks.me.world_size > 1 && comm::why_none_survive(ranks.me).empty()) {
    elastic_.emplace(ranks.me, ranks.world,
                     comm::Rendezvous::Options{.late = comm::Rendezvous::Options::Late::kComesBack});
  }
  replica_ = std::make_unique<Replica>(placement, std::move(module), 0, std::vector<model::OptimizerOptions>{});
  if (elastic_ && elastic_->joins()) {
    lacks_state_ = true;
    go_on_without("");
    return;
  }
  open_first();
}

LocalSteps::~LocalSteps() {
  if (under_way_.another() || has_finished_ || world_.size == 1 || !exchange_ || exchange_->steps() == 0) return;
  say("ends without finish(): its parameters are its own, not those of the run");
}

void LocalSteps::open_first() {
  comm::WorldOptions options = ranks_.world;
  options.limits.deadline = Deadline::after(ranks_.patience);
  world_ = comm::open_world(ranks_.me, options);
  const Limits patient{.deadline = Deadline::after(ranks_.patience), .stop = {}};
  require_same_options(options_, *world_.group, patient);
  require_same_model(*replica_, *world_.group, patient);
  broadcast_state(*replica_, *world_.group, 0, patient);
  exchange_ = std::make_unique<LocalExchange>(*replica_, *world_.group, options_);
  if (!elastic_) return;
  elastic_->begin(*world_.group, patient);
  elastic_->guard(world_.group);
}

Limits LocalSteps::limits() const {
  return {.deadline = Deadline::after(elastic_ ? ranks_.late : ranks_.patience), .stop = {}};
}

void LocalSteps::say(const std::string& line) const {
  if (ranks_.say) ranks_.say(line);
}

template <typename Call>
void LocalSteps::surviving(const Call& call) {
  for (;;) {
    try {
      return call();
    } catch (const RunError& error) {
      if (!elastic_ || !comm::is_loss_of_others(error)) throw;
      go_on_without(error.what());
    }
  }
}

void LocalSteps::step(double rows) {
  if (!(rows >= 0 && std::isfinite(rows))) throw ConfigError(concat("step() of ", rows, " rows; give 0 or more"));
  exchange_->count_step(rows);
  if (elastic_) exchange_->ask(elastic_->rendezvous().someone_waits());
  surviving([this] { exchange_->exchange_due(limits()); });
  let_in_who_waits();
}

// All have ended the exchange before the first of them leaves the group, so that nobody loses what it did.
void LocalSteps::let_in_who_waits() {
  if (!exchange_->asked()) return;
  surviving([this] {
    if (!exchange_->asked()) return;  // they have met anew meanwhile
    exchange_->finish(limits());
    world_.group->barrier(limits());
  });
  if (exchange_->asked()) go_on_without("");
}

template <typename Call>
void LocalSteps::until_done(const Call& call) {
  for (bool is_done = false; !is_done;) {
    surviving([&] { is_done = call(); });
    let_in_who_waits();
  }
}

void LocalSteps::agree() {
  until_done([this] { return exchange_->try_agree(limits()); });
}

void LocalSteps::finish() {
  until_done([this] { return exchange_->try_leave({.deadline = Deadline::after(ranks_.patience), .stop = {}}); });
  if (elastic_) elastic_->rendezvous().close();
  has_finished_ = true;
}

// Ranks that lose each other again and again would do so for ever. A rank in finish() makes no steps, but takes part in
// exchanges.
void LocalSteps::count_meeting() {
  const std::int64_t done = exchange_ ? exchange_->steps() + exchange_->over() : -1;
  fruitless_ = done > met_at_ ? 0 : fruitless_ + 1;
  met_at_ = done;
  if (fruitless_ > kMostFruitless) {
    throw RunError(concat("the ranks have met ", fruitless_, " times without a step between, and lost each other ",
                          "again: likely the network between them does not hold"));
  }
}

// Until those that are there have entered the exchange together.
void LocalSteps::go_on_without(const std::string& why) {
  if (!why.empty()) say(concat("the ranks meet anew: ", first_line(why)));
  for (;;) {
    count_meeting();
    if (world_.group) world_.group->abort("the ranks meet anew");
    if (!first_store_) first_store_ = std::move(world_.store);
    std::optional<comm::World> next = meet();
    if (!next) continue;
    world_ = std::move(*next);
    elastic_->guard(world_.group);
    try {
      return enter(lacks_state_ ? LocalExchange::Knows::kNothing : LocalExchange::Knows::kItsOwn);
    } catch (const RunError& error) {
      if (!comm::is_loss_of_others(error)) throw;
      say(concat("the ranks meet anew: ", first_line(error.what())));
    }
  }
}

// Nothing where a member of the round was lost before its world was open.
std::optional<comm::World> LocalSteps::meet() {
  std::vector<std::string> notes;
  std::optional<comm::World> world;
  try {
    const std::optional<comm::Round> round =
        elastic_->next_round({.deadline = Deadline::after(lacks_state_ ? ranks_.patience : ranks_.late), .stop = {}});
    if (!round) throw RunError("the others have finished without this rank: its parameters are not the run's last");
    if (!round->lost.empty()) fruitless_ = 0;  // without them the next world may hold
    if (!lacks_state_) {
      for (const comm::Round::Loss& loss : round->lost) say(concat("rank ", loss.who.rank, " is lost: ", loss.how));
      for (const comm::Life& who : round->joined) say(concat("rank ", who.rank, " joins"));
    }
    world = elastic_->open(*round, {}, notes);
  } catch (const comm::LeftBehind&) {
    say("was late, and the others have gone on; comes back with their parameters");
    elastic_->come_back();
    lacks_state_ = true;
  }
  for (const std::string& note : notes) say(note);
  return world;
}

void LocalSteps::enter(LocalExchange::Knows knows) {
  const Limits patient{.deadline = Deadline::after(ranks_.patience), .stop = {}};
  require_same_options(options_, *world_.group, patient);
  require_same_model(*replica_, *world_.group, patient);
  if (!exchange_) exchange_ = std::make_unique<LocalExchange>(*replica_, *world_.group, options_);
  exchange_->enter(*world_.group, knows, patient);
  if (knows == LocalExchange::Knows::kNothing)
    say(concat("joins at step ", exchange_->steps(), ", as ", world_.rank, " of ", world_.size, " ranks"));
  lacks_state_ = false;
}

}  // namespace tandem::sync

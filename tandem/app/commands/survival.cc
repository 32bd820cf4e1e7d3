// Survival. States of a rank: before start() it has no rendezvous unless it joins; start() opens one and begins the
// first round, or shares the newest state in a later one; meet_anew() leads from round to round; close() ends the run
// for all.
#include <chrono>
#include <utility>

#include "tandem/app/commands/run_ranks.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// How long a rank that gives signs of life is waited for: as long as in a step.
constexpr std::chrono::minutes kLongestMeeting{5};
constexpr int kMostFruitless = 3;

}  // namespace

Survival::Survival(comm::LauncherEnvironment me, comm::WorldOptions options)
    : world_(std::move(me), std::move(options)), is_joiner_(world_.joins()) {
  // Asked between updates, so that a newcomer is let in at the end of one.
  kept_.someone_waits = [this] { return world_.has_rendezvous() && world_.rendezvous().someone_waits(); };
}

void Survival::start(const learner::Ranks& ranks, std::chrono::milliseconds deadline) {
  if (world_.me().world_size == 1) return;  // nobody else is there to go on
  world_.rendezvous().set_deadline(deadline);
  if (has_started_ || is_joiner_) {
    has_started_ = true;
    share_newest(ranks, kept_);
    return;
  }
  world_.begin(*ranks.group(), {.deadline = Deadline::after(kLongestMeeting), .stop = {}});
  has_started_ = true;
  guard(ranks);
}

bool Survival::can_go_on(const std::exception& error) const { return has_started_ && comm::is_loss_of_others(error); }

std::optional<comm::World> Survival::meet_anew(const std::stop_token& stop) {
  noticed_ = Clock::now();
  while (true) {
    const std::optional<comm::Round> round =
        world_.next_round({.deadline = Deadline::after(kLongestMeeting), .stop = stop});
    if (!round) return std::nullopt;
    require_change(*round);
    note(*round);
    // Without a world somebody died while the group was built: meet again.
    if (std::optional<comm::World> world = world_.open(*round, stop, notes)) return world;
  }
}

// Ranks that fail again and again without an update in between would do so for ever.
void Survival::require_change(const comm::Round& round) {
  // A round after which nobody was lost, nobody came and no update was made has changed nothing.
  const bool has_changed = !round.lost.empty() || !round.joined.empty() || kept_.updates > met_at_;
  fruitless_ = has_changed ? 0 : fruitless_ + 1;
  met_at_ = kept_.updates;
  if (fruitless_ < kMostFruitless) return;
  throw RunError(concat("the ranks lost each other ", kMostFruitless, " times after update ", kept_.updates,
                        " though none of them died: likely the network between them does not hold"));
}

void Survival::note(const comm::Round& round) {
  for (const comm::Round::Loss& loss : round.lost) {
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - noticed_).count();
    notes.push_back(concat("rank ", loss.who.rank, " is lost (", loss.how, "), noticed ", ago, " ms ago"));
  }
  for (const comm::Life& who : round.joined)
    notes.push_back(concat("rank ", who.rank, " has joined, started again ", who.restarts, " time(s)"));
  notes.push_back(concat("the run goes on with rank(s) ", joined(round.members, &comm::Life::rank), " of ",
                         world_.me().world_size, ", which are numbered anew in this order: round ", round.number));
}

void Survival::close() {
  if (has_started_) world_.rendezvous().close();
}

// The gather serves as a barrier; its numbers mean nothing.
void Survival::wait_for_the_record(const learner::Ranks& ranks) {
  if (!has_started_) return;
  try {
    (void)ranks.gather({0.0});
  } catch (const RunError& error) {
    if (!comm::is_loss_of_others(error) || !world_.rendezvous().end_without_the_silent()) throw;
  }
}

}  // namespace tandem::app

#include "tandem/comm/layers.h"

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/rethrow.h"

namespace tandem::comm {

Layers::Layers(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, int layers_outside, Names names)
    : names_(names), inner_(std::move(inner)), outer_(std::move(outer)), layers_outside_(layers_outside) {
  TANDEM_CHECK(!leads() || outer_ != nullptr, "the leader of an inner group needs its place in the outer one");
  tie();
}

Layers::~Layers() {
  inner_->on_question({});
  inner_->on_close({});
  if (!leads()) return;
  outer_->on_question({});
  outer_->on_close({});
}

void Layers::place(InnerSizes sizes, int mine) {
  sizes_ = std::move(sizes);
  mine_ = mine;
  tie();
}

// Only the leader listens to the outer group: others may hold the same one.
void Layers::tie() {
  inner_->on_close([this, before = words(Phase::kInside)](const std::string& why) {
    if (outer_ != nullptr) outer_->abort(before + why);
    closed_.give(before + why);
  });
  inner_->on_question([this] { on_question_inside(); });
  if (!leads()) return;
  outer_->on_question([this] { on_question_between(); });
  outer_->on_close([this, before = words(Phase::kBetween)](const std::string& why) {
    inner_->abort(before + why);
    closed_.give(before + why);
  });
}

// The members of these groups may lead such of another layer, and wait for those.
Limits Layers::asking(Phase phase, const Limits& limits) const {
  Limits all = limits;
  if (questions_.is_heard()) all.answer = std::max<Clock::duration>(all.answer, kAnswer);
  if (phase == Phase::kBetween) all.answer += kAnswer;
  if (phase == Phase::kFromLeader && !leads()) all.answer += 2 * layers_outside_ * kAnswer;
  return all;
}

void Layers::run(Phase phase, const std::function<void()>& operation) {
  phase_.store(phase);
  try {
    operation();
  } catch (const std::exception& error) {
    const std::string before = words(phase);
    abort(before + error.what());
    rethrow_with(before, [&](int place) { return rank_of(phase, place); });
  }
  phase_.store(Phase::kNothing);
}

void Layers::abort(const std::string& why) {
  inner_->abort(why);
  if (outer_ != nullptr) outer_->abort(why);
}

void Layers::expire() {
  const Phase phase = phase_.load();
  if (phase == Phase::kBetween) return outer_->expire();
  if (phase != Phase::kNothing) inner_->expire();
}

void Layers::on_question_inside() {
  const Phase phase = phase_.load();
  if (phase == Phase::kBetween) outer_->expire();
  if (phase == Phase::kNothing) questions_.ring();
}

void Layers::on_question_between() {
  const Phase phase = phase_.load();
  if (phase == Phase::kInside || phase == Phase::kFromLeader) inner_->expire();
  if (phase == Phase::kNothing) questions_.ring();
}

std::string Layers::words(Phase phase) const {
  if (names_ == Names::kOfTheRun) return "";
  return phase == Phase::kBetween ? sizes_.describe_all() : sizes_.describe(mine_);
}

int Layers::rank_of(Phase phase, int place) const {
  return phase == Phase::kBetween ? sizes_.begin(place) : sizes_.begin(mine_) + place;
}

}  // namespace tandem::comm

#include "tandem/comm/layers.h"

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/rethrow.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

constexpr int kMostNamed = 8;

std::string ranks(int begin, int end) {
  return end - begin == 1 ? concat("rank ", begin) : concat("ranks ", begin, " to ", end - 1);
}

}  // namespace

InnerSizes::InnerSizes(std::vector<int> sizes) : sizes_(std::move(sizes)), begins_{0} {
  for (const int size : sizes_) begins_.push_back(begins_.back() + size);
}

int InnerSizes::largest() const { return *std::max_element(sizes_.begin(), sizes_.end()); }

int InnerSizes::part_of(int rank) const {
  return static_cast<int>(std::upper_bound(begins_.begin(), begins_.end(), rank) - begins_.begin()) - 1;
}

std::string InnerSizes::describe(int part) const {
  if (sizes_.empty()) return "while the groups met, within one: ";
  return concat("within the group of ", ranks(begin(part), begin(part) + of(part)), ", counted from 0 here: ");
}

std::string InnerSizes::describe_all() const {
  if (sizes_.empty()) return "while the groups met: ";
  std::string text = "between the groups of ";
  for (int part = 0; part < std::min(parts(), kMostNamed); ++part)
    text += concat(part == 0 ? "" : "; ", ranks(begin(part), begin(part) + of(part)));
  return concat(text, parts() > kMostNamed ? "; and so on" : "", ", counted from 0 here: ");
}

Layers::Layers(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, int layers_outside, Names names)
    : names_(names), inner_(std::move(inner)), outer_(std::move(outer)), layers_outside_(layers_outside) {
  TANDEM_CHECK(!leads() || outer_ != nullptr, "the leader of an inner group needs its place in the outer one");
  register_listeners();
}

Layers::~Layers() {
  inner_->on_question({});
  inner_->on_close({});
  if (!leads()) return;
  outer_->on_question({});
  outer_->on_close({});
}

void Layers::set_sizes(InnerSizes sizes, int mine) {
  sizes_ = std::move(sizes);
  mine_ = mine;
  register_listeners();
}

// Called twice, since the prefixes of messages change when the sizes are known. Only the leader listens to the outer
// group: other members of its process may hold the same one.
void Layers::register_listeners() {
  inner_->on_close([this, before = prefix_of(Phase::kInside)](const std::string& why) {
    if (outer_ != nullptr) outer_->abort(before + why);
    listeners_.close(before + why);
  });
  inner_->on_question([this] { on_question_inside(); });
  if (!leads()) return;
  outer_->on_question([this] { on_question_between(); });
  outer_->on_close([this, before = prefix_of(Phase::kBetween)](const std::string& why) {
    inner_->abort(before + why);
    listeners_.close(before + why);
  });
}

// A member of the inner or outer group may itself lead a group of another layer and wait there. So it gets a whole
// kAnswer for each step that a question may take from here.
Limits Layers::asking(Phase phase, const Limits& limits) const {
  Limits all = limits;
  if (listeners_.answers()) all.answer = std::max<Clock::duration>(all.answer, kAnswer);
  if (phase == Phase::kBetween) all.answer += kAnswer;
  if (phase == Phase::kFromLeader && !leads()) all.answer += 2 * layers_outside_ * kAnswer;
  return all;
}

void Layers::run(Phase phase, const Limits& limits, const Operation& operation) {
  phase_.store(phase);
  try {
    operation(phase == Phase::kBetween ? *outer_ : *inner_, limits);
  } catch (const std::exception& error) {
    const std::string before = prefix_of(phase);
    abort(before + error.what());
    rethrow_with(before, [&](int place) { return rank_of(phase, place); });
  }
  phase_.store(Phase::kNothing);
}

void Layers::abort(const std::string& why) {
  inner_->abort(why);
  if (outer_ != nullptr) outer_->abort(why);
}

// Expires the wait of the group that this member is in now. The phase may change meanwhile; expire() is repeated then.
void Layers::expire() {
  const Phase phase = phase_.load();
  if (phase == Phase::kBetween) return outer_->expire();
  if (phase != Phase::kNothing) inner_->expire();
}

// A member of the inner group asks: this member keeps it waiting while it is among the leaders, or in no wait at all.
// In the latter case a layer outside may know what it waits for.
void Layers::on_question_inside() {
  const Phase phase = phase_.load();
  if (phase == Phase::kBetween) outer_->expire();
  if (phase == Phase::kNothing) listeners_.ask();
}

// Another leader asks: this leader keeps it waiting while it waits for its own inner group.
void Layers::on_question_between() {
  const Phase phase = phase_.load();
  if (phase == Phase::kInside || phase == Phase::kFromLeader) inner_->expire();
  if (phase == Phase::kNothing) listeners_.ask();
}

std::string Layers::prefix_of(Phase phase) const {
  if (names_ == Names::kOfTheRun) return "";
  return phase == Phase::kBetween ? sizes_.describe_all() : sizes_.describe(mine_);
}

// The rank over all groups of a member of the group that is used in `phase`.
int Layers::rank_of(Phase phase, int place) const {
  return phase == Phase::kBetween ? sizes_.begin(place) : sizes_.begin(mine_) + place;
}

}  // namespace tandem::comm

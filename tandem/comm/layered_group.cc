#include "tandem/comm/layered_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/close_signal.h"
#include "tandem/comm/inner_sizes.h"
#include "tandem/comm/rethrow.h"

namespace tandem::comm {
namespace {

// Note [Who waits longer]
// A member of an inner group that does not come keeps its own group waiting, which names it; through that the leaders
// of other groups wait for its leader, and their members for them. With one deadline for all, whoever came first would
// give up first and name somebody who is only waiting himself. So who waits for a leader waits longer than the leader
// does: the leaders for each other by one kGrace, the members for their leader by two for each layer outside.
constexpr std::chrono::milliseconds kGrace{400};

Limits later(const Limits& limits, int graces) {
  if (limits.deadline.is_infinite()) return limits;
  return {.deadline = Deadline::after(limits.deadline.remaining() + graces * kGrace), .stop = limits.stop};
}

// What closes one of the two groups closes the other, and is told further. Only the leader listens to the outer group:
// others may hold the same one.
class Bond {
 public:
  Bond(Group& inner, Group* outer) : inner_(inner), outer_(outer) {}
  ~Bond() {
    inner_.on_close({});
    if (leads()) outer_->on_close({});
  }
  Bond(const Bond&) = delete;
  Bond& operator=(const Bond&) = delete;

  /// With what stands before the messages of each group.
  void tie(const std::string& inside, const std::string& between) {
    inner_.on_close([this, inside](const std::string& why) {
      if (outer_ != nullptr) outer_->abort(inside + why);
      closed_.give(inside + why);
    });
    if (!leads()) return;
    outer_->on_close([this, between](const std::string& why) {
      inner_.abort(between + why);
      closed_.give(between + why);
    });
  }
  CloseSignal& closed() { return closed_; }

 private:
  [[nodiscard]] bool leads() const { return outer_ != nullptr && inner_.rank() == 0; }

  Group& inner_;
  Group* const outer_;
  CloseSignal closed_;
};

class LayeredMember final : public Group {
 public:
  LayeredMember(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, const Limits& limits, Names names)
      : names_(names), inner_(std::move(inner)), outer_(std::move(outer)), bond_(*inner_, outer_.get()) {
    TANDEM_CHECK(!leads() || outer_ != nullptr, "the leader of an inner group needs its place in the outer one");
    if (const auto* outside = dynamic_cast<const LayeredMember*>(outer_.get()))
      layers_outside_ += outside->layers_outside_;
    tie();
    meet(limits);
    tie();
  }

  [[nodiscard]] int rank() const override { return sizes_.begin(mine_) + inner_->rank(); }
  [[nodiscard]] int size() const override { return sizes_.all(); }

  [[nodiscard]] Range subtree(Range shards) const override {
    const Range part = outer_ != nullptr ? outer_->subtree(shards) : subtree_of(shards, sizes_.parts(), mine_);
    return inner_->subtree(part);
  }

  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) override {
    return inner_->allocate(count, dtype, device);
  }

  Pending start_all_reduce(const at::Tensor& flat) override {
    inside([&] { started_.push_back({flat, inner_->start_all_reduce(flat), {}}); });
    return {*this, next_++};
  }

  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    TANDEM_CHECK(root >= 0 && root < size(), "rank ", root, " of ", size());
    require_all_waited();
    const int part = sizes_.part_of(root);
    if (part == mine_) inside([&] { inner_->broadcast(flat, root - sizes_.begin(part), limits); });
    between([&] { outer_->broadcast(flat, part, among_leaders(limits)); });
    if (part != mine_) inside([&] { inner_->broadcast(flat, 0, from_leader(limits)); });
  }

  // Each leader puts the rows of its group one after the other; what it gets of the others goes on as one tensor.
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    require_all_waited();
    const at::NoGradGuard no_grad;
    const at::Tensor rows = mine.dim() == 0 ? mine.reshape({1}) : mine;
    std::vector<at::Tensor> tensors;
    inside([&] { tensors = inner_->all_gather(rows, limits); });
    at::Tensor counts = at::empty({size()}, at::kLong);
    at::Tensor whole;
    between([&] {
      std::vector<std::int64_t> own;
      for (const at::Tensor& tensor : tensors) own.push_back(tensor.size(0));
      counts = at::cat(outer_->all_gather(at::tensor(own, at::kLong), among_leaders(limits)));
      whole = at::cat(outer_->all_gather(at::cat(tensors), among_leaders(limits)));
    });
    inside([&] {
      inner_->broadcast(counts, 0, from_leader(limits));
      if (!leads()) {
        std::vector<std::int64_t> shape = rows.sizes().vec();
        shape.front() = counts.sum().item<std::int64_t>();
        whole = at::empty(shape, rows.options());
      }
      inner_->broadcast(whole, 0, from_leader(limits));
    });
    const std::span<const std::int64_t> split(counts.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(size()));
    std::vector<at::Tensor> all = whole.split_with_sizes(at::IntArrayRef(split.data(), split.size()));
    if (mine.dim() == 0) {
      for (at::Tensor& tensor : all) tensor = tensor.reshape({});
    }
    return all;
  }

  // The inner groups may differ in size, and the leaders' gather takes equally many numbers of each.
  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    require_all_waited();
    TANDEM_CHECK(all.size() == mine.size() * static_cast<std::size_t>(size()), all.size(), " for ", size(), " x ",
                 mine.size());
    const auto numbers = [&](int members) { return static_cast<std::size_t>(members) * mine.size(); };
    std::vector<double> part(numbers(sizes_.largest()));
    inside([&] { inner_->all_gather(mine, std::span(part).first(numbers(inner_->size())), limits); });
    between([&] {
      std::vector<double> parts(part.size() * static_cast<std::size_t>(outer_->size()));
      outer_->all_gather(part, parts, among_leaders(limits));
      for (int other = 0; other < sizes_.parts(); ++other) {
        const auto from = parts.begin() + static_cast<std::ptrdiff_t>(part.size()) * other;
        std::copy_n(from, numbers(sizes_.of(other)),
                    all.begin() + static_cast<std::ptrdiff_t>(numbers(sizes_.begin(other))));
      }
    });
    // A tensor that owns its memory: should this wait fail, others may still read it.
    const at::Tensor whole = at::empty({std::ssize(all)}, at::kDouble);
    std::ranges::copy(all, whole.mutable_data_ptr<double>());
    inside([&] { inner_->broadcast(whole, 0, from_leader(limits)); });
    std::copy_n(whole.const_data_ptr<double>(), all.size(), all.begin());
  }

  // Within each inner group, then among the leaders, who have their groups' parts by then, then from them to theirs.
  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    require_all_waited();
    std::vector<OwnedPart> of_mine, of_others, by_group;
    for (const OwnedPart& part : parts) {
      const int group = sizes_.part_of(part.owner);
      by_group.push_back({group, part.begin, part.end});
      if (group == mine_) {
        of_mine.push_back({part.owner - sizes_.begin(mine_), part.begin, part.end});
      } else {
        of_others.push_back({0, part.begin, part.end});
      }
    }
    inside([&] { inner_->share_parts(flat, of_mine, limits); });
    between([&] { outer_->share_parts(flat, joined(by_group), among_leaders(limits)); });
    inside([&] { inner_->share_parts(flat, joined(of_others), from_leader(limits)); });
  }

  void barrier(const Limits& limits) override {
    require_all_waited();
    inside([&] { inner_->barrier(limits); });
    between([&] { outer_->barrier(among_leaders(limits)); });
    inside([&] { inner_->barrier(from_leader(limits)); });
  }

  void abort(const std::string& why) override {
    inner_->abort(why);
    if (outer_ != nullptr) outer_->abort(why);
  }

  void on_close(std::function<void(const std::string&)> listener) override {
    bond_.closed().listen(std::move(listener));
  }

 protected:
  // Collectives of a group are waited for in the order of their start, and the sums inside were started before the
  // results can be handed round. So all of those are waited for first; the leader gives each to the others at once.
  void finish(std::uint64_t ticket, const Limits& limits) override {
    TANDEM_CHECK(!started_.empty() && ticket + started_.size() == next_,
                 "collectives are waited for in the order of their start");
    for (; summed_inside_ < started_.size(); ++summed_inside_) {
      Started& next = started_[summed_inside_];
      inside([&] { next.inside.wait(limits); });
      between([&] { next.between = outer_->start_all_reduce(next.flat); });
    }
    between([&] { started_.front().between->wait(among_leaders(limits)); });
    inside([&] { inner_->broadcast(started_.front().flat, 0, from_leader(limits)); });
    started_.pop_front();
    --summed_inside_;
  }

 private:
  struct Started {
    at::Tensor flat;
    Pending inside;
    std::optional<Pending> between;  // the leader's, once the sum inside is there
  };

  [[nodiscard]] bool leads() const { return inner_->rank() == 0; }

  // See note [Who waits longer].
  [[nodiscard]] static Limits among_leaders(const Limits& limits) { return later(limits, 1); }
  [[nodiscard]] Limits from_leader(const Limits& limits) const { return later(limits, 2 * layers_outside_); }

  void meet(const Limits& limits) {
    const at::Tensor place = at::zeros({2}, at::kLong);  // of this inner group, and how many there are
    at::Tensor sizes;
    between([&] {
      place[0] = outer_->rank();
      place[1] = outer_->size();
      sizes = at::cat(outer_->all_gather(at::full({1}, inner_->size(), at::kLong), among_leaders(limits)));
    });
    inside([&] {
      inner_->broadcast(place, 0, from_leader(limits));
      if (!leads()) sizes = at::empty({place[1].item<std::int64_t>()}, at::kLong);
      inner_->broadcast(sizes, 0, from_leader(limits));
    });
    mine_ = static_cast<int>(place[0].item<std::int64_t>());
    std::vector<int> known;
    for (std::int64_t part = 0; part < sizes.numel(); ++part)
      known.push_back(static_cast<int>(sizes[part].item<std::int64_t>()));
    sizes_ = InnerSizes(std::move(known));
  }

  [[nodiscard]] std::string inside_words() const { return names_ == Names::kByPlace ? sizes_.describe(mine_) : ""; }
  [[nodiscard]] std::string between_words() const { return names_ == Names::kByPlace ? sizes_.describe_all() : ""; }
  void tie() { bond_.tie(inside_words(), between_words()); }

  void require_all_waited() const {
    TANDEM_CHECK(started_.empty(), "collectives are waited for in the order of their start");
  }

  // An operation of the inner group, which all its members do.
  template <typename Operation>
  void inside(const Operation& operation) {
    const auto where = [this] { return inside_words(); };
    const auto rank_of = [this](int inner) { return sizes_.begin(mine_) + inner; };
    guarded(operation, where, rank_of);
  }

  // An operation of the outer group, which only the leaders do.
  template <typename Operation>
  void between(const Operation& operation) {
    if (!leads()) return;
    const auto where = [this] { return between_words(); };
    const auto rank_of = [this](int part) { return sizes_.begin(part); };
    guarded(operation, where, rank_of);
  }

  // What ends it ends both groups: nobody would come to what the others wait for.
  template <typename Operation, typename Where, typename RankOf>
  void guarded(const Operation& operation, const Where& where, const RankOf& rank_of) {
    try {
      operation();
    } catch (const std::exception& error) {
      abort(where() + error.what());
      rethrow_with(where(), rank_of);
    }
  }

  const Names names_;
  const std::unique_ptr<Group> inner_;
  const std::shared_ptr<Group> outer_;
  Bond bond_;
  InnerSizes sizes_;
  int mine_ = 0;  // this inner group's place among them
  int layers_outside_ = 1;
  std::deque<Started> started_;    // in the order of their tickets, which end before next_
  std::size_t summed_inside_ = 0;  // of the started
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Group> make_layered_group(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer,
                                          const Limits& limits, Names names) {
  return std::make_unique<LayeredMember>(std::move(inner), std::move(outer), limits, names);
}

}  // namespace tandem::comm

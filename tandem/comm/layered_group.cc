#include "tandem/comm/layered_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/comm/layers.h"

namespace tandem::comm {
namespace {

Layers::Operation broadcast_from(int root, const at::Tensor& flat) {
  return [root, &flat](Group& group, const Limits& within) { group.broadcast(flat, root, within); };
}

// Every collective has up to three steps: inside (all members of an inner group), between (the leaders), and from the
// leader (its inner group again). Layers runs each step and turns a failure of one into a failure of the whole group.
class LayeredMember final : public Group {
 public:
  LayeredMember(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, const Limits& limits, Names names)
      : layers_outside_(1 + layers_of(outer.get())),
        layers_(std::move(inner), std::move(outer), layers_outside_, names) {
    meet(limits);
  }

  [[nodiscard]] int rank() const override { return layers_.sizes().begin(layers_.mine()) + layers_.inner().rank(); }
  [[nodiscard]] int size() const override { return layers_.sizes().all(); }

  [[nodiscard]] Range subtree(Range shards) const override {
    const Range part = layers_.outer() != nullptr ? layers_.outer()->subtree(shards)
                                                  : subtree_of(shards, layers_.sizes().parts(), layers_.mine());
    return layers_.inner().subtree(part);
  }

  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) override {
    return layers_.inner().allocate(count, dtype, device);
  }

  [[nodiscard]] bool goes_on_alone() const override { return carrier_ != nullptr; }

  Pending start_all_reduce(const at::Tensor& flat) override {
    require_summable(flat);
    if (carrier_) {
      return {*this, carrier_->start(flat)};
    }
    layers_.inside({}, [&](Group& inner, const Limits&) {
      started_.push_back({flat, inner.start_all_reduce(flat), {}});
    });
    return {*this, next_++};
  }

  // The root's inner group broadcasts first, so that its leader has the tensor; then the leaders; then the other inner
  // groups.
  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    require_broadcast(flat, root);
    require_all_waited();
    const int part = layers_.sizes().part_of(root);
    if (part == layers_.mine()) layers_.inside(limits, broadcast_from(root - layers_.sizes().begin(part), flat));
    layers_.between(limits, broadcast_from(part, flat));
    if (part != layers_.mine()) layers_.from_leader(limits, broadcast_from(0, flat));
  }

  // The members tell each other how many rows each has, and then share the parts of one tensor with the rows of all.
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    const at::NoGradGuard no_grad;
    const at::Tensor rows = mine.dim() == 0 ? mine.reshape({1}) : mine;
    const auto own = static_cast<double>(rows.size(0));
    std::vector<double> counts(static_cast<std::size_t>(size()));
    all_gather(std::span(&own, 1), counts, limits);
    const std::vector<std::int64_t> of_each(counts.begin(), counts.end());
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape.front() = std::accumulate(of_each.begin(), of_each.end(), std::int64_t{0});
    const at::Tensor whole = at::empty(shape, rows.options());
    std::vector<at::Tensor> all = whole.split_with_sizes(of_each);
    all[static_cast<std::size_t>(rank())].copy_(rows);
    std::vector<OwnedPart> parts;
    for (const at::Tensor& tensor : all) {
      const std::int64_t begin = parts.empty() ? 0 : parts.back().end;
      parts.push_back({static_cast<int>(parts.size()), begin, begin + tensor.numel()});
    }
    share_parts(whole.flatten(), parts, limits);
    for (at::Tensor& tensor : all) tensor = mine.dim() == 0 ? tensor.reshape({}) : tensor;
    return all;
  }

  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    require_room(mine, all);
    // The tensor owns its memory, since other members may still read it after a failed wait.
    const at::Tensor whole = at::empty({std::ssize(all)}, at::kDouble);
    std::ranges::copy(mine, whole.mutable_data_ptr<double>() + rank() * std::ssize(mine));
    std::vector<OwnedPart> parts;
    for (int each = 0; each < size(); ++each)
      parts.push_back({each, each * std::ssize(mine), (each + 1) * std::ssize(mine)});
    share_parts(whole, parts, limits);
    std::copy_n(whole.const_data_ptr<double>(), all.size(), all.begin());
  }

  // The inner groups share their own parts first, so that each leader has all parts of its group. The leaders share
  // those, and hand the parts of the other groups to their members.
  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    require_all_waited();
    const InnerSizes& sizes = layers_.sizes();
    std::vector<OwnedPart> of_mine, of_others, by_group;
    for (const OwnedPart& part : parts) {
      const int group = sizes.part_of(part.owner);
      by_group.push_back({group, part.begin, part.end});
      if (group == layers_.mine()) {
        of_mine.push_back({part.owner - sizes.begin(group), part.begin, part.end});
      } else {
        of_others.push_back({0, part.begin, part.end});
      }
    }
    const auto share = [&](const std::vector<OwnedPart>& shared) {
      return [&](Group& group, const Limits& within) { group.share_parts(flat, shared, within); };
    };
    by_group = merged(by_group);
    of_others = merged(of_others);
    layers_.inside(limits, share(of_mine));
    layers_.between(limits, share(by_group));
    layers_.from_leader(limits, share(of_others));
  }

  void barrier(const Limits& limits) override {
    require_all_waited();
    const auto meet = [](Group& group, const Limits& within) { group.barrier(within); };
    layers_.inside(limits, meet);
    layers_.between(limits, meet);
    layers_.from_leader(limits, meet);
  }

  bool abort(const std::string& why) override { return layers_.abort(why); }
  bool fail(const std::string& why) override { return layers_.fail(why); }
  void expire() override { layers_.expire(); }
  [[nodiscard]] Listening on_close(std::function<void(const std::string&)> listener) override {
    return layers_.on_close(std::move(listener));
  }
  void on_question(std::function<void()> listener) override { layers_.on_question(std::move(listener)); }

 protected:
  // The inner group's collectives are waited for in the order of their start, and the sums of all started collectives
  // began before any result can be broadcast inside. So all these sums are waited for first; the leader starts the sum
  // between the leaders for each at once.
  void finish(std::uint64_t ticket, const Limits& limits) override {
    if (carrier_) {
      require_order(carrier_->is_next(ticket));
      return carrier_->wait(ticket, limits);
    }
    require_order(!started_.empty() && ticket + started_.size() == next_);
    for (; summed_inside_ < started_.size(); ++summed_inside_) {
      Started& next = started_[summed_inside_];
      layers_.inside(limits, [&](Group&, const Limits& within) { next.inside.wait(within); });
      layers_.between({}, [&](Group& outer, const Limits&) { next.between = outer.start_all_reduce(next.flat); });
    }
    layers_.between(limits, [&](Group&, const Limits& within) { started_.front().between->wait(within); });
    layers_.from_leader(limits, broadcast_from(0, started_.front().flat));
    started_.pop_front();
    --summed_inside_;
  }

 private:
  struct Started {
    at::Tensor flat;
    Pending inside;
    std::optional<Pending> between;  // of the leader only, once the sum inside is complete
  };

  // How many layered groups `outer` consists of, each the outer group of the one before.
  static int layers_of(const Group* outer) {
    const auto* outside = dynamic_cast<const LayeredMember*>(outer);
    return outside == nullptr ? 0 : outside->layers_outside_;
  }

  // The leaders gather the sizes of all inner groups and hand them to their members.
  void meet(const Limits& limits) {
    // `place` holds this inner group's number, the number of inner groups, and whether a thread carries collectives on.
    // Only one of several layers has such a thread. It hands a result round only when all that was started meanwhile is
    // summed inside; an inner layer with a thread, too, would wait for results that the outer one keeps until then.
    const at::Tensor place = at::zeros({3}, at::kLong);
    at::Tensor sizes;
    layers_.between(limits, [&](Group& outer, const Limits& within) {
      place[0] = outer.rank();
      place[1] = outer.size();
      place[2] = layers_outside_ == 1 && outer.goes_on_alone() && outer.size() > 1 ? 1 : 0;
      sizes = at::cat(outer.all_gather(at::full({1}, layers_.inner().size(), at::kLong), within));
    });
    layers_.from_leader(limits, [&](Group& inner, const Limits& within) {
      inner.broadcast(place, 0, within);
      if (!layers_.leads()) sizes = at::empty({place[1].item<std::int64_t>()}, at::kLong);
      inner.broadcast(sizes, 0, within);
    });
    std::vector<int> known;
    for (std::int64_t part = 0; part < sizes.numel(); ++part)
      known.push_back(static_cast<int>(sizes[part].item<std::int64_t>()));
    layers_.set_sizes(InnerSizes(known), static_cast<int>(place[0].item<std::int64_t>()));
    if (place[2].item<std::int64_t>() != 0) carrier_ = std::make_unique<Carrier>(layers_);
  }

  void require_all_waited() const {
    TANDEM_CHECK(carrier_ ? carrier_->all_waited() : started_.empty(),
                 "collectives are waited for in the order of their start");
  }

  const int layers_outside_;
  Layers layers_;
  std::deque<Started> started_;       // collectives without a carrier, by ticket: next_ - size() .. next_ - 1
  std::size_t summed_inside_ = 0;     // how many of started_, from the first on, are summed inside
  std::uint64_t next_ = 0;            // the next ticket
  std::unique_ptr<Carrier> carrier_;  // only where the outer group goes on alone; last, since it uses the layers
};

}  // namespace

std::unique_ptr<Group> make_layered_group(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer,
                                          const Limits& limits, Names names) {
  const Survival survival = (outer ? *outer : *inner).survival();
  auto layered = std::make_unique<LayeredMember>(std::move(inner), std::move(outer), limits, names);
  layered->set_survival(survival);
  return layered;
}

}  // namespace tandem::comm

#include "tandem/sync/shared_variables.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

// Parameters as those of a replica, in the order of its flat memory, so that theirs has the same layout.
class Stand final : public torch::nn::Module {
 public:
  explicit Stand(const model::FlatParameters& like) {
    for (const model::FlatBuffer& buffer : like.buffers()) {
      for (const model::ParameterSlot& slot : buffer.slots) {
        const auto options = at::TensorOptions().dtype(buffer.values.scalar_type());
        (void)register_parameter(name_of(names_++), at::zeros(slot.shape, options));
      }
    }
  }
  static std::string name_of(std::size_t number) { return concat("p", number); }

 private:
  std::size_t names_ = 0;
};

model::FlatParameters::Options options_as(const model::FlatParameters& like) {
  model::FlatParameters::Options options;
  for (int group = 0; group < like.groups(); ++group) options.groups.push_back({concat("g", group), {}});
  std::size_t number = 0;
  for (const model::FlatBuffer& buffer : like.buffers()) {
    for (const model::ParameterSlot& slot : buffer.slots) {
      const std::string name = Stand::name_of(number++);
      options.groups[static_cast<std::size_t>(slot.group)].prefixes.push_back(name);
      if (buffer.sparse) options.sparse_parameters.push_back(name);
    }
  }
  return options;
}

void copy_values(const model::FlatParameters& from, const model::FlatParameters& to) {
  for (std::size_t b = 0; b < from.buffers().size(); ++b) {
    at::Tensor values = to.buffers()[b].values;
    values.copy_(from.buffers()[b].values);
  }
}

void copy_state(model::Optimizer& from, model::Optimizer& to) {
  const auto source = from.state(), target = to.state();
  for (std::size_t i = 0; i < source.size(); ++i) {
    at::Tensor tensor = target[i].second;
    tensor.copy_(source[i].second);
  }
  to.state_changed();
}

}  // namespace

struct SharedVariables::Home {
  explicit Home(Replica& like)
      : parameters(std::make_shared<Stand>(like.parameters()), options_as(like.parameters())),
        optimizer(parameters, like.optimizer().rules()) {
    const auto &mine = parameters.buffers(), &its = like.parameters().buffers();
    TANDEM_CHECK(mine.size() == its.size(), mine.size(), " buffers for ", its.size());
    for (std::size_t b = 0; b < mine.size(); ++b) {
      TANDEM_CHECK(mine[b].values.numel() == its[b].values.numel() && mine[b].sparse == its[b].sparse &&
                       mine[b].group_begin == its[b].group_begin,
                   "buffer ", b, " of the shared variables has another layout");
    }
  }

  model::FlatParameters parameters;
  model::Optimizer optimizer;
};

SharedVariables::SharedVariables(Replica& like, const StalenessBound& bound)
    : home_(std::make_unique<Home>(like)), ledger_(like.placement().replicas, bound) {
  load(like);
}

SharedVariables::~SharedVariables() = default;

void SharedVariables::load(Replica& from) {
  const at::NoGradGuard no_grad;
  const MutexLock lock(mutex_);
  require_whole();
  copy_values(from.parameters(), home_->parameters);
  copy_state(from.optimizer(), home_->optimizer);
  ledger_.reset();
}

void SharedVariables::store(Replica& to) {
  const at::NoGradGuard no_grad;
  const MutexLock lock(mutex_);
  require_whole();
  copy_values(home_->parameters, to.parameters());
  copy_state(home_->optimizer, to.optimizer());
}

StalenessLedger::Entry SharedVariables::push(const Offer& offer, const model::FlatParameters::Gradients& gradients) {
  StalenessLedger::Entry entry;
  {
    const MutexLock lock(mutex_);
    require_whole();
    entry = ledger_.offer(offer.replica);
    if (entry.is_applied) {
      home_->optimizer.set_learning_rate(offer.learning_rate);
      home_->optimizer.step(gradients, offer.scale, offer.lr_factor);
    }
  }
  changed_.notify_all();
  return entry;
}

void SharedVariables::pass(int replica) {
  {
    const MutexLock lock(mutex_);
    require_whole();
    ledger_.pass(replica);
  }
  changed_.notify_all();
}

void SharedVariables::await_turn(int replica, const Limits& limits) {
  const MutexLock lock(mutex_);
  const auto ready = [&]() TANDEM_REQUIRES(mutex_) { return failure_ || ledger_.may_go_on(replica); };
  const bool in_time = changed_.wait(mutex_, limits.stop, limits.deadline, ready);
  require_whole();
  if (in_time) return;
  std::string slower;
  for (const int other : ledger_.behind(replica)) slower += concat(slower.empty() ? "" : ", ", other);
  const std::string who = concat("replica ", replica, " waited for replica ", slower,
                                 ", which is further behind than the bound on staleness allows");
  if (limits.stop.stop_requested()) throw GroupAborted(who + ", and was stopped");
  throw DeadlineExceeded(who + "; the deadline passed: it is stopped, or much slower than the others");
}

void SharedVariables::pull(int replica, const Read& read) {
  const MutexLock lock(mutex_);
  require_whole();
  read(home_->parameters.buffers());
  ledger_.pulled(replica);
}

void SharedVariables::leave(int replica) {
  {
    const MutexLock lock(mutex_);
    require_whole();
    ledger_.leave(replica);
  }
  changed_.notify_all();
}

void SharedVariables::rejoin() {
  const MutexLock lock(mutex_);
  require_whole();
  ledger_.rejoin();
}

void SharedVariables::lose(int replica, const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (ledger_.has_left(replica)) return;
  }
  fail(why);
}

void SharedVariables::fail(const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  changed_.notify_all();
  const MutexLock lock(telling_);
  if (failed_) failed_(why);
}

void SharedVariables::on_failure(Failed failed) {
  const MutexLock lock(telling_);
  failed_ = std::move(failed);
}

StalenessLedger::Counts SharedVariables::counts() const {
  const MutexLock lock(mutex_);
  return ledger_.counts();
}

void SharedVariables::require_whole() const {
  if (failure_) std::rethrow_exception(failure_);
}

model::FlatParameters::Gradients SharedVariables::make_gradients() const {
  return home_->parameters.make_gradients(
      [](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
}

const std::vector<model::FlatBuffer>& SharedVariables::layout() const { return home_->parameters.buffers(); }

}  // namespace tandem::sync

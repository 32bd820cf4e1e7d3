#include "tandem/sync/variable_link.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/sync/variable_message.h"

namespace tandem::sync {
namespace {

class LinkWithin final : public VariableLink {
 public:
  LinkWithin(std::shared_ptr<SharedVariables> variables, Replica& replica)
      : variables_(std::move(variables)), replica_(replica) {
    if (!replica.placement().device.is_cpu()) on_host_ = variables_->make_gradients();
  }

  StalenessLedger::Entry exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                                  const Limits& limits) override {
    StalenessLedger::Entry entry;
    if (gradients == nullptr) {
      variables_->pass(offer.replica);
    } else {
      entry = variables_->push(offer, brought_home(*gradients));
    }
    variables_->await_turn(offer.replica, limits);
    variables_->pull(offer.replica, [this](const std::vector<model::FlatBuffer>& values) {
      const at::NoGradGuard no_grad;
      for (std::size_t b = 0; b < values.size(); ++b) {
        at::Tensor mine = replica_.parameters().buffers()[b].values;
        mine.copy_(values[b].values);
      }
    });
    return entry;
  }

  void leave(const Limits&) override { variables_->leave(replica_.placement().replica); }

  void abort(const std::string& why) override {
    const int me = replica_.placement().replica;
    variables_->lose(me, std::make_exception_ptr(PeerLost(me, concat("replica ", me, " failed: ", why))));
  }

 private:
  // On the CPU, where the variables are.
  const model::FlatParameters::Gradients& brought_home(const model::FlatParameters::Gradients& gradients) {
    if (!on_host_) return gradients;
    const at::NoGradGuard no_grad;
    for (std::size_t b = 0; b < gradients.flat.size(); ++b) {
      if (gradients.flat[b].defined()) on_host_->flat[b].copy_(gradients.flat[b]);
      for (std::size_t s = 0; s < gradients.sparse[b].size(); ++s) {
        const at::Tensor& sparse = gradients.sparse[b][s];
        on_host_->sparse[b][s] = sparse.defined() ? sparse.cpu() : sparse;
      }
    }
    return *on_host_;
  }

  const std::shared_ptr<SharedVariables> variables_;
  Replica& replica_;
  std::optional<model::FlatParameters::Gradients> on_host_;
};

class LinkAcross final : public VariableLink {
 public:
  LinkAcross(const net::ServerAddress& server, Replica& replica, const Limits& limits)
      : replica_(replica), client_(server, replica.placement().replica, limits) {}

  StalenessLedger::Entry exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                                  const Limits& limits) override {
    const OfferMessage message(offer, gradients);
    const net::Message answer = client_.call(kExchange, message.parts(), limits);
    return read_values(answer, replica_.parameters());
  }

  void leave(const Limits& limits) override { (void)client_.call(kLeave, {}, limits); }
  void abort(const std::string&) override { client_.hang_up(); }

 private:
  Replica& replica_;
  net::MessageClient client_;
};

}  // namespace

std::unique_ptr<VariableLink> link_within(std::shared_ptr<SharedVariables> variables, Replica& replica) {
  return std::make_unique<LinkWithin>(std::move(variables), replica);
}

std::unique_ptr<VariableLink> link_across(const net::ServerAddress& server, Replica& replica, const Limits& limits) {
  return std::make_unique<LinkAcross>(server, replica, limits);
}

}  // namespace tandem::sync

#include "tandem/sync/variables/variable_link.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/device/one_core.h"

namespace tandem::sync {
namespace {

// Calls within the process. A replica on a device copies its gradients to memory on the host first (`on_host_`), since
// the variables lie there; values are copied straight to the device.
class LinkWithin final : public VariableLink {
 public:
  LinkWithin(std::shared_ptr<VariableService> variables, Replica& replica)
      : variables_(std::move(variables)), replica_(replica) {
    if (!replica.placement().device.is_cpu()) on_host_ = variables_->make_gradients();
  }

  StepReport exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                      const Limits& limits) override {
    StepReport mine;
    variables_->exchange(offer, gradients == nullptr ? nullptr : &brought_home(*gradients), limits, read_into(mine));
    return mine;
  }

  void rest(const Limits&) override { variables_->rest(replica_.placement().replica); }
  std::int64_t resume(const Limits& limits) override {
    StepReport mine;
    variables_->resume(replica_.placement().replica, limits, read_into(mine));
    return mine.step;
  }
  std::optional<StepReport> recall(const Recalled& told, const Limits&) override {
    return variables_->recall(replica_.placement().replica, told);
  }
  void leave(const Limits&) override { variables_->leave(replica_.placement().replica); }
  // Whatever happens, the replica stops counting as one that reads, or the owner would wait for it.
  void depart(const std::vector<at::Tensor>& state, const Limits& limits) override {
    const int me = replica_.placement().replica;
    const auto let_go = [me](VariableService* variables) { variables->let_go(me); };
    const std::unique_ptr<VariableService, decltype(let_go)> reader(variables_.get(), let_go);
    variables_->depart(me, limits, [&](const std::vector<at::Tensor>& last) { copy_all(last, state); });
  }

  void abort(const std::string& why) override {
    const int me = replica_.placement().replica;
    variables_->lose(me, std::make_exception_ptr(PeerLost(me, concat("replica ", me, " failed: ", why))));
  }

 private:
  // Takes the report, and the values into the replica's parameters.
  VariableService::Read read_into(StepReport& mine) {
    return [this, &mine](const StepReport& report, const std::vector<at::Tensor>& values) {
      mine = report;
      copy_all(values, values_of(replica_.parameters()));
    };
  }

  // The gradients on the CPU, where the variables are.
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

  const std::shared_ptr<VariableService> variables_;
  Replica& replica_;
  std::optional<model::FlatParameters::Gradients> on_host_;
};

// Messages to a VariableServer of another process, one request at a time.
class LinkAcross final : public VariableLink {
 public:
  LinkAcross(const net::ServerAddress& server, Replica& replica, const Limits& limits)
      : owner_(server.member), replica_(replica), client_(server, replica.placement().replica, limits) {}

  StepReport exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                      const Limits& limits) override {
    return read_values(call(kExchange, MessageParts(bytes_of(offer), tensors_of(gradients)).get(), limits));
  }

  void rest(const Limits& limits) override { (void)call(kRest, {}, limits); }
  std::int64_t resume(const Limits& limits) override {
    const net::Message answer = call(kResume, {}, limits);
    return answer.kind == kValues ? read_values(answer).step : 0;
  }
  std::optional<StepReport> recall(const Recalled& told, const Limits& limits) override {
    const net::Bytes bytes = bytes_of(told);
    const net::Message answer = call(kRecall, {&bytes, 1}, limits);
    if (answer.kind == kNotHere) return std::nullopt;
    return read_value<StepReport>(answer);
  }
  void leave(const Limits& limits) override { (void)call(kLeave, {}, limits); }
  void depart(const std::vector<at::Tensor>& state, const Limits& limits) override {
    MessageReader(call(kDepart, {}, limits).bytes).read_rest(state);
    client_.hang_up();  // tells the server that the state has been read
  }
  void abort(const std::string&) override { client_.hang_up(); }

 private:
  // The loss of the owner is told with what it means; that of another replica, which the owner told all, as it is.
  [[nodiscard]] net::Message call(VariableRequest request, std::span<const net::Bytes> parts, const Limits& limits) {
    try {
      return client_.call(request, parts, limits);
    } catch (const PeerLost& lost) {
      if (lost.peer() != owner_) throw;
      throw PeerLost(owner_,
                     concat(lost.what(), "; its process held the parameters and the optimizer's state of the run;",
                            " unless survivors take over, go on from the last checkpoint"));
    }
  }

  StepReport read_values(const net::Message& answer) const {
    MessageReader reader(answer.bytes);
    const auto report = reader.read<StepReport>();
    reader.read_rest(values_of(replica_.parameters()));
    return report;
  }

  const int owner_;
  Replica& replica_;
  net::MessageClient client_;
};

}  // namespace

std::unique_ptr<VariableLink> link_within(std::shared_ptr<VariableService> variables, Replica& replica) {
  return std::make_unique<LinkWithin>(std::move(variables), replica);
}

std::unique_ptr<VariableLink> link_across(const net::ServerAddress& server, Replica& replica, const Limits& limits) {
  return std::make_unique<LinkAcross>(server, replica, limits);
}

// --- messages -------------------------------------------------------------------------------------------------------

static_assert(std::is_trivially_copyable_v<KeptStep> && std::is_trivially_copyable_v<KeptSeat>);

void MessageReader::read(void* into, std::size_t size) {
  if (size > rest_.size()) fail();
  if (size > 0) std::memcpy(into, rest_.data(), size);
  rest_ = rest_.subspan(size);
}

std::int64_t MessageReader::read_count(std::size_t bytes) {
  const auto count = read<std::int64_t>();
  if (count > static_cast<std::int64_t>(rest_.size() / bytes)) fail();
  return count;
}

// Tensors of a message are read into memory of their own, so that the message can go.
at::Tensor MessageReader::read_tensor(at::IntArrayRef shape, at::ScalarType dtype) {
  const at::Tensor tensor = at::empty(shape, dtype);
  read(tensor.data_ptr(), tensor.nbytes());
  return tensor;
}

void MessageReader::read_rest(const std::vector<at::Tensor>& into) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : into) {
    if (tensor.is_cpu() && tensor.is_contiguous())
      read(tensor.mutable_data_ptr(), tensor.nbytes());
    else
      tensor.copy_(read_tensor(tensor.sizes(), tensor.scalar_type()));
  }
  require_end();
}

void MessageReader::require_end() const {
  if (!is_at_end()) fail();
}

void MessageReader::fail() const {
  throw RunError(concat("a message about the shared variables ends ", rest_.size(),
                        " bytes from where the model's layout says; the ranks hold different models or versions"));
}

// Reads into the same memory again and again; only sparse gradients, whose sizes change, get new tensors. Their rows
// are marked as coalesced, so that nobody sorts them: they are added in the order in which the replica put them.
void MessageReader::read_gradient(const std::vector<model::FlatBuffer>& layout,
                                  model::FlatParameters::Gradients& gradients) {
  for (std::size_t b = 0; b < layout.size(); ++b) {
    if (!layout[b].sparse) {
      read(gradients.flat[b].mutable_data_ptr(), gradients.flat[b].nbytes());
      continue;
    }
    for (std::size_t s = 0; s < layout[b].slots.size(); ++s) {
      at::Tensor& slot = gradients.sparse[b][s];
      slot.reset();
      const std::int64_t count = read_count(sizeof(std::int64_t));
      if (count < 0) continue;
      std::vector<std::int64_t> rows = layout[b].slots[s].shape;
      const std::int64_t all = std::exchange(rows[0], count);
      const at::Tensor indices = read_tensor({1, count}, at::kLong);
      const at::Tensor values = read_tensor(rows, layout[b].values.scalar_type());
      const std::span numbers(indices.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(count));
      if (!std::ranges::all_of(numbers, [all](std::int64_t row) { return row >= 0 && row < all; })) fail();
      slot = at::_sparse_coo_tensor_unsafe(indices, values, layout[b].slots[s].shape)._coalesced_(true);
    }
  }
}

std::vector<at::Tensor> tensors_of(const model::FlatParameters::Gradients* gradients) {
  std::vector<at::Tensor> tensors;
  for (std::size_t b = 0; gradients != nullptr && b < gradients->flat.size(); ++b) {
    if (gradients->flat[b].defined()) tensors.push_back(gradients->flat[b]);
    for (const at::Tensor& slot : gradients->sparse[b]) {
      tensors.push_back(at::full({1}, slot.defined() ? slot._nnz() : -1, at::kLong));
      if (slot.defined()) tensors.insert(tensors.end(), {slot._indices(), slot._values()});
    }
  }
  return tensors;
}

MessageParts::MessageParts(net::Bytes head, const std::vector<at::Tensor>& tensors) {
  parts_.push_back(head);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor& kept = tensors_.emplace_back(tensor.detach().cpu().contiguous());
    parts_.emplace_back(static_cast<const std::byte*>(kept.const_data_ptr()), kept.nbytes());
  }
}

// Values are the largest part of each step's traffic, so the message takes one allocation.
net::Message message_of(VariableRequest kind, net::Bytes head, const std::vector<at::Tensor>& tensors) {
  std::size_t size = head.size();
  for (const at::Tensor& tensor : tensors) size += tensor.nbytes();
  net::Message message{.kind = kind};
  message.bytes.reserve(size);
  message.bytes.assign(head.begin(), head.end());
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.contiguous();
    const auto* bytes = static_cast<const std::byte*>(whole.const_data_ptr());
    message.bytes.insert(message.bytes.end(), bytes, bytes + whole.nbytes());
  }
  return message;
}

std::vector<std::byte> front_of(const KeptRecord& record) {
  const auto step = bytes_of<KeptStep>(record), seats = std::as_bytes(std::span(record.seats));
  const std::int64_t count = std::ssize(record.seats);
  std::vector<std::byte> front;
  for (const net::Bytes part : {step, bytes_of(count), seats}) front.insert(front.end(), part.begin(), part.end());
  return front;
}

KeptRecord read_record(MessageReader& reader) {
  KeptRecord record{reader.read<KeptStep>(), {}};
  record.seats.resize(static_cast<std::size_t>(std::max<std::int64_t>(reader.read_count(sizeof(KeptSeat)), 0)));
  for (KeptSeat& seat : record.seats) seat = reader.read<KeptSeat>();
  return record;
}

// --- the server -----------------------------------------------------------------------------------------------------

VariableServer::VariableServer(net::Access access, std::shared_ptr<VariableService> variables,
                               std::vector<std::string> names, ServerHooks hooks)
    : variables_(std::move(variables)),
      names_(std::move(names)),
      hooks_(std::move(hooks)),
      gradients_(names_.size()),
      server_(
          access,
          [this](int replica, const net::Message& request, const Limits& limits) {
            return serve(replica, request, limits);
          },
          [this](int member, const std::string& how) { lose(member, how); }) {
  variables_->on_failure([this](const std::exception_ptr& why) {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& error) {
      server_.tell_all(error);
    }
  });
}

// A connection has ended. Members beyond the replicas are successions, which the hook knows.
void VariableServer::lose(int member, const std::string& how) {
  const auto index = static_cast<std::size_t>(member);
  const std::string name = index < names_.size() ? names_[index] : concat("member ", member);
  const auto why = std::make_exception_ptr(PeerLost(member, concat(name, " is lost to the run: ", how)));
  if (hooks_.lose)
    hooks_.lose(member, why);
  else
    variables_->lose(member, why);
}

// One request of a replica, on the thread of its connection. A request that waits, as an exchange or a resume does,
// blocks that thread only.
net::Message VariableServer::serve(int replica, const net::Message& request, const Limits& limits) {
  device::use_one_core();  // updates of several replicas come one after the other, on as many threads
  if (hooks_.answer) {
    if (std::optional<net::Message> other = hooks_.answer(replica, request, limits)) return std::move(*other);
  }
  net::Message answer = message_of(kDone);
  const VariableService::Read read = [&](const StepReport& report, const std::vector<at::Tensor>& values) {
    answer = message_of(kValues, bytes_of(report), values);
  };
  switch (request.kind) {
    case kRest:
      variables_->rest(replica);
      break;
    case kResume:
      variables_->resume(replica, limits, read);
      break;
    case kLeave:
      variables_->leave(replica);
      break;
    case kDepart:
      variables_->depart(replica, limits,
                         [&](const std::vector<at::Tensor>& state) { answer = message_of(kState, {}, state); });
      break;
    default:
      exchange(replica, request, limits, read);
  }
  return answer;
}

// The gradient is read into memory that this replica's requests use again, and the variables may change it until the
// answer is written.
void VariableServer::exchange(int replica, const net::Message& request, const Limits& limits,
                              const VariableService::Read& read) {
  TANDEM_CHECK(request.kind == kExchange, "request ", request.kind, " to the shared variables");
  model::FlatParameters::Gradients& gradients = gradients_.at(static_cast<std::size_t>(replica));
  if (gradients.flat.empty()) gradients = variables_->make_gradients();
  MessageReader reader(request.bytes);
  const auto offer = reader.read<Offer>();
  const bool has_gradient = !reader.is_at_end();
  if (has_gradient) reader.read_gradient(variables_->layout(), gradients);
  reader.require_end();
  variables_->exchange(offer, has_gradient ? &gradients : nullptr, limits, read);
}

}  // namespace tandem::sync

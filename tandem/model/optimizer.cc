#include "tandem/model/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/update_rules.h"

namespace tandem::model {
namespace {

// On the CPU the scaled gradients of one call stay in the second-level cache, so scaling costs no pass over memory.
constexpr std::int64_t kMostAtOnce = 131072;  // elements

const char* short_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "f32";
    case at::kDouble:
      return "f64";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    default:
      TANDEM_CHECK(false, "not a trainable dtype: ", dtype);
  }
}

// Neighbouring parameters of one group that are updated by the same calls.
struct Run {
  std::size_t first_slot = 0;
  int group = 0;
  std::vector<Stretch> stretches;    // cut at kMostAtOnce
  std::vector<at::Tensor> unscaled;  // the gradients of each, as they came
};

// Optimizer state and plan of one flat buffer.
struct Part {
  const FlatBuffer* buffer = nullptr;
  std::vector<Elements> kept;       // all elements, or what keep_only() said
  std::vector<at::Tensor> moments;  // [elements kept] each; empty until they are needed
  at::Tensor steps;                 // int64 [slots], on the parameters' device
  at::Tensor host_steps;            // the same tensor when that is the CPU
  at::Tensor scaled;                // scratch for scaled gradients; undefined for a sparse buffer
  at::Tensor factor;                // a scalar: what scales them
  RuleMemory memory;

  // The cut into runs that was made last, and what it was made for.
  std::vector<char> cut, wanted;  // per slot: kAbsent, kStarts or kContinues
  const void* gradients = nullptr;
  std::vector<Run> runs;
};

enum Cut : char { kAbsent, kStarts, kContinues };

// Scalars are written in place: an operation for it costs a tenth of the whole update of a small policy.
void set_scalar(at::Tensor& scalar, double value) {
  if (!scalar.is_cpu()) {
    scalar.fill_(value);
  } else if (scalar.scalar_type() == at::kDouble) {
    *scalar.mutable_data_ptr<double>() = value;
  } else {
    *scalar.mutable_data_ptr<float>() = static_cast<float>(value);
  }
}

}  // namespace

struct Optimizer::State {
  FlatParameters& parameters;
  std::vector<OptimizerOptions> rules;  // one a group
  double lr = 0;                        // of group 0
  std::vector<std::string> names;       // of the moments
  std::vector<Part> parts;
  enum class Moments { kWhole, kPartial } moments = Moments::kWhole;  // of dense buffers
  bool has_memory = false;                                            // for moments

  [[nodiscard]] std::int64_t* steps_of(Part& part) const { return part.host_steps.mutable_data_ptr<std::int64_t>(); }
  [[nodiscard]] double lr_of_group(std::size_t group) const;
  [[nodiscard]] Part make_part(const FlatBuffer& buffer) const;
  void take_memory();
  [[nodiscard]] bool is_partial(const Part& part) const { return moments == Moments::kPartial && !part.buffer->sparse; }
  [[nodiscard]] static std::string suffix_of(const Part& part);
  void append_stretches(Part& part, const Elements& range, const at::Tensor& flat, Run& run);
  void plan(Part& part, const at::Tensor& flags);
  void make_runs(Part& part, const at::Tensor& flat);
  void step_dense(Part& part, const at::Tensor& flat, const at::Tensor& flags, double scale, double lr_factor);
  void step_sparse(Part& part, const std::vector<at::Tensor>& gradients, double scale, double lr_factor);
};

// A group with the rate of group 0 has exactly that, whatever it is set to; others keep their ratio to it.
double Optimizer::State::lr_of_group(std::size_t group) const {
  const double first = lr_of(rules[0]), own = lr_of(rules[group]);
  return own == first ? lr : lr == first ? own : own * (lr / first);
}

Part Optimizer::State::make_part(const FlatBuffer& buffer) const {
  Part part;
  part.buffer = &buffer;
  part.kept = {{0, buffer.values.numel()}};
  const auto options = buffer.values.options();
  part.steps = at::zeros({static_cast<std::int64_t>(buffer.slots.size())}, options.dtype(at::kLong));
  part.host_steps = part.steps.cpu();  // the same tensor when it is there already
  if (buffer.sparse) return part;
  part.memory.step = {at::zeros({}, options.dtype(at::kFloat))};
  part.factor =
      at::zeros({}, at::device(at::kCPU).dtype(buffer.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  return part;
}

void Optimizer::State::take_memory() {
  if (std::exchange(has_memory, true)) return;
  for (Part& part : parts) {
    const auto options = part.buffer->values.options();
    std::int64_t kept = 0;
    for (const Elements& elements : part.kept) kept += elements.size();
    for (std::size_t i = 0; i < names.size(); ++i) part.moments.push_back(at::zeros({kept}, options));
    if (part.buffer->sparse) continue;
    const auto most = part.buffer->values.is_cpu() ? std::min(kMostAtOnce, kept) : kept;
    part.scaled = at::zeros({most}, options);
    if (needs_scratch(rules.front())) part.memory.scratch = at::empty({most}, options);
  }
}

std::string Optimizer::State::suffix_of(const Part& part) {
  return concat(".", short_name(part.buffer->values.scalar_type()), part.buffer->sparse ? ".sparse" : "");
}

// Which slots are absent, start a run or continue one.
void Optimizer::State::plan(Part& part, const at::Tensor& flags) {
  const auto& slots = part.buffer->slots;
  const std::int64_t* steps = steps_of(part);
  const at::Tensor here = flags.is_cpu() ? flags : flags.cpu();
  part.wanted.resize(slots.size());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, here.scalar_type(), "presence", [&] {
    const auto* present = here.const_data_ptr<scalar_t>();
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (present[s] == static_cast<scalar_t>(0)) {
        part.wanted[s] = kAbsent;
      } else if (s > 0 && part.wanted[s - 1] != kAbsent && slots[s].group == slots[s - 1].group &&
                 same_update(rules[static_cast<std::size_t>(slots[s].group)], steps[s - 1], steps[s])) {
        part.wanted[s] = kContinues;
      } else {
        part.wanted[s] = kStarts;
      }
    }
  });
}

void Optimizer::State::make_runs(Part& part, const at::Tensor& flat) {
  const auto& slots = part.buffer->slots;
  part.runs.clear();
  for (std::size_t s = 0; s < slots.size();) {
    if (part.wanted[s] == kAbsent) {
      ++s;
      continue;
    }
    Run run{s, slots[s].group, {}, {}};
    const std::int64_t begin = slots[s].offset;
    do ++s;
    while (s < slots.size() && part.wanted[s] == kContinues);
    // To the next slot, gap included: zeros stay zeros there.
    const std::int64_t end = s < slots.size() ? slots[s].offset : part.buffer->values.numel();
    append_stretches(part, {begin, end}, flat, run);
    part.runs.push_back(std::move(run));
  }
  part.cut = part.wanted;
  part.gradients = flat.const_data_ptr();
}

// Of the elements of `range`, those that are kept.
void Optimizer::State::append_stretches(Part& part, const Elements& range, const at::Tensor& flat, Run& run) {
  std::int64_t kept_before = 0;
  for (const Elements& kept : part.kept) {
    const std::int64_t end = std::min(range.end, kept.end);
    for (std::int64_t at = std::max(range.begin, kept.begin); at < end; at += part.scaled.numel()) {
      const auto size = std::min(part.scaled.numel(), end - at);
      Stretch stretch{{part.buffer->values.narrow(0, at, size)}, {part.scaled.narrow(0, 0, size)}, {}};
      for (std::size_t m = 0; m < part.moments.size(); ++m)
        stretch.moments[m] = {part.moments[m].narrow(0, kept_before + at - kept.begin, size)};
      run.stretches.push_back(std::move(stretch));
      run.unscaled.push_back(flat.narrow(0, at, size));
    }
    kept_before += kept.size();
  }
}

void Optimizer::State::step_dense(Part& part, const at::Tensor& flat, const at::Tensor& flags, double scale,
                                  double lr_factor) {
  plan(part, flags);
  if (part.wanted != part.cut || part.gradients != flat.const_data_ptr()) make_runs(part, flat);
  std::int64_t* steps = steps_of(part);
  set_scalar(part.factor, scale);
  for (auto& run : part.runs) {
    const auto group = static_cast<std::size_t>(run.group);
    const auto& rule = rules[group];
    const std::int64_t step = steps[run.first_slot] + 1;
    set_scalar(part.memory.step[0], static_cast<double>(step));
    const double lr_now = lr_of_group(group) * lr_factor;
    for (std::size_t i = 0; i < run.stretches.size(); ++i) {
      auto& stretch = run.stretches[i];
      if (scale == 1 && !writes_gradients(rule)) {
        std::swap(stretch.gradients[0], run.unscaled[i]);
        update(rule, lr_now, step, part.memory, stretch);
        std::swap(stretch.gradients[0], run.unscaled[i]);
      } else {
        at::mul_out(stretch.gradients[0], run.unscaled[i], part.factor);
        update(rule, lr_now, step, part.memory, stretch);
      }
    }
  }
  for (std::size_t s = 0; s < part.wanted.size(); ++s) steps[s] += part.wanted[s] == kAbsent ? 0 : 1;
  if (!part.steps.is_cpu()) part.steps.copy_(part.host_steps);
}

void Optimizer::State::step_sparse(Part& part, const std::vector<at::Tensor>& gradients, double scale,
                                   double lr_factor) {
  std::int64_t* steps = steps_of(part);
  for (std::size_t s = 0; s < part.buffer->slots.size(); ++s) {
    if (!gradients[s].defined()) continue;
    const auto& slot = part.buffer->slots[s];
    if (gradients[s].sparse_dim() != 1) {
      throw DataError(concat("the sparse gradient of parameter \"", slot.name, "\" has ", gradients[s].sparse_dim(),
                             " sparse dimensions; rows (one sparse dimension) can be applied"));
    }
    const auto view = [&](const at::Tensor& flat) { return flat.narrow(0, slot.offset, slot.count).view(slot.shape); };
    at::Tensor gradient = gradients[s].coalesce();
    if (scale != 1) gradient = gradient.mul(scale).coalesce();
    at::Tensor values = view(part.buffer->values);
    std::array<at::Tensor, 2> shaped;
    for (std::size_t m = 0; m < part.moments.size(); ++m) shaped[m] = view(part.moments[m]);
    const auto group = static_cast<std::size_t>(slot.group);
    update_rows(rules[group], lr_of_group(group) * lr_factor, ++steps[s], gradient, values, shaped);
  }
  if (!part.steps.is_cpu()) part.steps.copy_(part.host_steps);
}

Optimizer::Optimizer(FlatParameters& parameters, std::vector<OptimizerOptions> per_group)
    : state_(std::make_unique<State>(
          State{.parameters = parameters, .rules = std::move(per_group), .names = {}, .parts = {}})) {
  auto& rules = state_->rules;
  const auto groups = static_cast<std::size_t>(parameters.groups());
  std::vector<std::string> faults;
  if (rules.size() != 1 && rules.size() != groups) {
    throw ConfigError(concat("the optimizer has options for ", rules.size(), " parameter groups, the model has ",
                             groups, "; give one for all or one for each"));
  }
  for (std::size_t g = 0; g < rules.size(); ++g) {
    check_rule(rules[g], rules.size() == 1 ? "all groups" : concat("group ", g), faults);
    if (rules[g].index() == rules[0].index()) continue;
    faults.push_back(concat("the optimizer of group ", g, " is of another kind than that of group 0"));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  rules.resize(groups, rules.front());
  for (const auto& buffer : parameters.buffers()) {
    for (const auto& slot : buffer.slots) {
      if (buffer.sparse) check_sparse_rule(rules[static_cast<std::size_t>(slot.group)], slot.name, faults);
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  for (const auto& rule : rules) {
    if (auto names = moment_names(rule); names.size() > state_->names.size()) state_->names = std::move(names);
  }
  state_->lr = lr_of(rules.front());
  for (const auto& buffer : parameters.buffers()) state_->parts.push_back(state_->make_part(buffer));
}

Optimizer::~Optimizer() = default;

void Optimizer::keep_only(const std::vector<std::vector<Elements>>& kept) {
  TANDEM_CHECK(!state_->has_memory && kept.size() == state_->parts.size(), "keep_only() after the first use, or for ",
               kept.size(), " of ", state_->parts.size(), " buffers");
  state_->moments = State::Moments::kPartial;
  for (std::size_t b = 0; b < kept.size(); ++b) {
    if (!state_->parts[b].buffer->sparse) state_->parts[b].kept = kept[b];
  }
}

void Optimizer::step(const FlatParameters::Gradients& gradients, double scale, double lr_factor) {
  const at::NoGradGuard no_grad;
  state_->take_memory();
  for (std::size_t b = 0; b < state_->parts.size(); ++b) {
    auto& part = state_->parts[b];
    if (part.buffer->sparse) {
      state_->step_sparse(part, gradients.sparse[b], scale, lr_factor);
    } else {
      state_->step_dense(part, gradients.flat[b], gradients.presence[b], scale, lr_factor);
    }
  }
}

const std::vector<OptimizerOptions>& Optimizer::rules() const { return state_->rules; }

double Optimizer::learning_rate() const { return state_->lr; }

void Optimizer::set_learning_rate(double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) throw ConfigError(concat("learning rate ", lr, " must be at least 0"));
  const double first = lr_of(state_->rules.front());
  for (const auto& rule : state_->rules) {
    if (first != 0 || lr_of(rule) == 0) continue;
    throw ConfigError(
        "group 0 was made with learning rate 0, so the other groups have no ratio to it that could be kept");
  }
  state_->lr = lr;
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  state_->take_memory();
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& part : state_->parts) {
    const std::string suffix = State::suffix_of(part);
    for (std::size_t m = 0; m < part.moments.size() && !state_->is_partial(part); ++m)
      all.emplace_back(state_->names[m] + suffix, part.moments[m]);
    all.emplace_back("step" + suffix, part.steps);
  }
  return all;
}

std::vector<PartialMoment> Optimizer::partial_moments() const {
  state_->take_memory();
  std::vector<PartialMoment> all;
  for (std::size_t b = 0; b < state_->parts.size(); ++b) {
    const Part& part = state_->parts[b];
    for (std::size_t m = 0; m < part.moments.size() && state_->is_partial(part); ++m)
      all.push_back({.name = state_->names[m] + State::suffix_of(part), .buffer = b, .kept = part.moments[m]});
  }
  return all;
}

void Optimizer::state_changed() {
  for (auto& part : state_->parts) {
    if (!part.steps.is_cpu()) part.host_steps.copy_(part.steps);
  }
}

}  // namespace tandem::model

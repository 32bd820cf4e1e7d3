#include "tandem/app/tune/layout.h"

#include <algorithm>
#include <set>

#include "tandem/app/config/value_format.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kPlace = "tandem tune";

// Of runs in which a replica's speed decides what the others do, or random numbers are drawn by whoever comes first.
bool depends_on_timing(const TrainOptions& given) {
  const bool ends_early = given.algo == Algorithm::kDdPpo && !given.dd_ppo.replay &&
                          given.dd_ppo.stragglers.policy != pipeline::Stragglers::kWaitAll;
  return ends_early || given.rng == Rng::kUnordered || given.cuda_kernels == device::CudaKernels::kFastest;
}

std::string key_of(Vary what, const TrainOptions& given) {
  switch (what) {
    case Vary::kDevices:
      return "devices";
    case Vary::kStrategy:
      return "strategy";
    case Vary::kLoaders:
      return "impala.loaders";
    case Vary::kShards:
      return "shards";
    case Vary::kWorkers:
      return "impala.workers";
    case Vary::kNumEnvs:
      return "num_envs";
    case Vary::kMinibatch:
      break;
  }
  return given.ppo.minibatches ? "ppo.minibatches" : "ppo.minibatch_size";
}

// 1, 2, 4, ... and `most` itself.
std::vector<std::string> powers_up_to(std::int64_t most) {
  std::vector<std::string> texts;
  for (std::int64_t n = 1; n < most; n *= 2) texts.push_back(concat(n));
  texts.push_back(concat(most));
  return texts;
}

std::vector<std::string> around(std::int64_t given) {
  std::vector<std::string> texts{concat(given * 2), concat(given * 4)};
  if (given % 2 == 0) texts.insert(texts.begin(), concat(given / 2));
  return texts;
}

// What is tried besides the given value.
std::vector<std::string> texts_of(Vary what, const TrainOptions& given, const Machine& machine) {
  std::vector<std::string> texts;
  switch (what) {
    case Vary::kDevices:
      for (const DeviceChoice& choice : machine.devices) texts.push_back(choice.text);
      return texts;
    case Vary::kStrategy:
      return {"replicated", "divided"};
    case Vary::kLoaders:
      return powers_up_to(std::min<std::int64_t>(machine.cores, given.impala.buffers));
    case Vary::kShards:
    case Vary::kWorkers:
      return powers_up_to(machine.cores);
    case Vary::kNumEnvs:
      return around(given.ppo.num_envs);
    case Vary::kMinibatch:
      break;
  }
  return around(given.ppo.minibatches ? *given.ppo.minibatches : given.ppo.minibatch_size.value_or(1));
}

struct Knob {
  Vary what;
  std::string key, given;
  std::vector<std::string> texts;  // the given one first
};

Knob knob_of(Vary what, const TrainOptions& given, const Machine& machine) {
  TrainOptions copy = given;
  Knob knob{.what = what, .key = key_of(what, given), .given = {}, .texts = {}};
  knob.given = option_table(copy).at(knob.key).text();
  knob.texts = {knob.given};
  for (std::string& text : texts_of(what, given, machine)) {
    if (std::find(knob.texts.begin(), knob.texts.end(), text) == knob.texts.end()) knob.texts.push_back(text);
  }
  return knob;
}

std::string value_in(const Layout& layout, std::string_view key, const std::string& otherwise) {
  for (const LayoutValue& value : layout.values) {
    if (value.key == key) return value.text;
  }
  return otherwise;
}

std::int64_t replicas_in(const Layout& layout, const TrainOptions& given, const Machine& machine) {
  const std::string devices = value_in(layout, "devices", given.devices);
  for (const DeviceChoice& choice : machine.devices) {
    if (choice.text == devices) return choice.replicas;
  }
  return 1;
}

// A replica without a shard, and a strategy that has nobody to share with.
bool makes_sense(const Layout& layout, const TrainOptions& given, const Machine& machine) {
  const std::int64_t replicas = replicas_in(layout, given, machine);
  const std::string shards = value_in(layout, "shards", concat(given.shards.value_or(1)));
  return replicas <= read_integer(shards).value_or(0) && (replicas > 1 || value_in(layout, "strategy", "").empty());
}

// As --vary takes them.
std::string words(const std::vector<Vary>& all) {
  std::string text;
  for (const Vary what : all) text += concat(text.empty() ? "" : ",", word_of(what));
  return text;
}

std::vector<Vary> all_that_apply(const TrainOptions& given) {
  std::vector<Vary> all;
  for (const auto& choice : Choices<Vary>::kAll) {
    if (applies(choice.value, given)) all.push_back(choice.value);
  }
  return all;
}

std::vector<Vary> chosen(const TrainOptions& given, const std::vector<Vary>& asked) {
  std::vector<Vary> all = all_that_apply(given);
  std::vector<std::string> faults;
  for (const Vary what : asked) {
    if (applies(what, given)) continue;
    faults.push_back(concat("--vary ", word_of(what), ": a run of ", word_of(given.algo), " with strategy ",
                            word_of(given.strategy), " has nothing of the kind; it takes ", words(all)));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  if (!asked.empty()) return asked;
  std::erase_if(all, [&given](Vary what) { return learning_of(what, given) == Learning::kOther; });
  return all;
}

[[noreturn]] void refuse_one_layout(const TrainOptions& given, const std::vector<Vary>& vary) {
  const std::string why =
      is_ppo(given.algo) && given.shards == 1 ? "the run has 1 shard, and so 1 replica; " : "no other layout fits; ";
  throw ConfigError(concat("there is nothing to try in ", vary.empty() ? "what cannot change learning" : words(vary),
                           ": ", why, "give --shards 2, say, or let more vary with --vary ",
                           words(all_that_apply(given)), " (all but ",
                           is_ppo(given.algo) ? "devices and strategy" : "loaders", " change what is learned)"));
}

}  // namespace

const char* name_of(Learning learning) {
  switch (learning) {
    case Learning::kSameBits:
      return "same bits";
    case Learning::kSameButForTiming:
      return "same";
    case Learning::kOther:
      break;
  }
  return "other";
}

std::string describe(const Layout& layout) {
  std::string text;
  for (const LayoutValue& value : layout.values) text += concat(text.empty() ? "" : ", ", value.key, " ", value.text);
  return text.empty() ? "as given" : text;
}

bool applies(Vary what, const TrainOptions& given) {
  switch (what) {
    case Vary::kStrategy:
      return is_ppo(given.algo) && !sync::depends_on_speed(given.strategy);
    case Vary::kLoaders:
      return !is_ppo(given.algo) && given.impala.execution == rl::ImpalaExecution::kThreads;
    case Vary::kWorkers:
      return !is_ppo(given.algo);
    case Vary::kDevices:
    case Vary::kShards:
    case Vary::kMinibatch:
      return is_ppo(given.algo);
    case Vary::kNumEnvs:
      break;
  }
  return true;
}

Learning learning_of(Vary what, const TrainOptions& given) {
  if (what == Vary::kLoaders) return Learning::kSameButForTiming;
  if (what != Vary::kDevices && what != Vary::kStrategy) return Learning::kOther;
  if (sync::depends_on_speed(given.strategy)) return Learning::kOther;
  // The CPU's arithmetic, where the other strategies have the devices'.
  if (what == Vary::kStrategy && given.strategy == sync::StrategyKind::kParameterServer &&
      given.parameter_server.variables == sync::Variables::kOnCpu)
    return Learning::kOther;
  return depends_on_timing(given) ? Learning::kSameButForTiming : Learning::kSameBits;
}

std::vector<Layout> layouts_of(const TrainOptions& given, const std::vector<Vary>& vary, const Machine& machine) {
  std::vector<Layout> layouts{{}};
  for (const Vary what : chosen(given, vary)) {
    const Knob knob = knob_of(what, given, machine);
    std::vector<Layout> grown;
    for (const Layout& layout : layouts) {
      for (const std::string& text : knob.texts) {
        Layout& with = grown.emplace_back(layout);
        if (text == knob.given) continue;
        with.values.push_back({knob.key, text});
        with.learning = std::max(with.learning, learning_of(what, given));
      }
    }
    layouts = std::move(grown);
  }
  std::erase_if(layouts,
                [&](const Layout& layout) { return !layout.values.empty() && !makes_sense(layout, given, machine); });
  if (layouts.size() == 1) refuse_one_layout(given, vary);
  return layouts;
}

ConfigSources with_layout(ConfigSources sources, const Layout& layout, const TrainOptions& given) {
  std::vector<LayoutValue> values = layout.values;
  // shards: auto would follow the devices.
  if (!value_in(layout, "devices", "").empty() && value_in(layout, "shards", "").empty() && given.shards)
    values.push_back({"shards", concat(*given.shards)});
  TrainOptions defaults;
  const OptionTable table = option_table(defaults);
  std::set<std::string> replaced;
  for (const LayoutValue& value : values) {
    const Option& option = table.at(value.key);
    replaced.insert(option.key());
    replaced.insert(option.rivals().begin(), option.rivals().end());
  }
  std::erase_if(sources.flags, [&replaced](const Setting& flag) { return replaced.contains(flag.key); });
  for (const LayoutValue& value : values)
    sources.flags.push_back({value.key, RawValue::of_text(value.text), {Layer::kFlag, kPlace}});
  return sources;
}

}  // namespace tandem::app

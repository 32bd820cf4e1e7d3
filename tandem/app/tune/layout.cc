// Layouts are the product of the values of all knobs that vary, with the given layout first. Values are compared as
// texts of the option table, so that a knob needs no type.
#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "tandem/app/config/value_format.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kPlace = "tandem tune";

// With the given value first.
std::vector<std::string> texts_of(const Knob& knob, const std::string& given) {
  std::vector<std::string> texts{given};
  for (const std::string& text : knob.texts) {
    if (std::ranges::count(texts, text) == 0) texts.push_back(text);
  }
  return texts;
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
std::string words(const std::vector<Knob>& knobs, const char* between = ",") {
  return joined(knobs, &Knob::word, between);
}

std::vector<Knob> chosen(const TrainOptions& given, const std::vector<Knob>& applying,
                         const std::vector<std::string>& asked) {
  std::vector<Knob> chosen;
  std::vector<std::string> faults;
  for (const std::string& word : asked) {
    const auto found = std::ranges::find(applying, word, &Knob::word);
    if (found != applying.end()) {
      chosen.push_back(*found);
      continue;
    }
    faults.push_back(concat("--vary ", word, ": a run of ", given.algo, " with strategy ", word_of(given.strategy),
                            " has nothing of the kind; it takes ", words(applying)));
  }
  // All wrong words are reported at once.
  if (!faults.empty()) throw ConfigError(std::move(faults));
  if (!asked.empty()) return chosen;
  std::ranges::copy_if(applying, std::back_inserter(chosen),
                       [](const Knob& knob) { return knob.learning != Learning::kOther; });
  return chosen;
}

// `all`: also those that do not apply to the run; `asked`: whether --vary chose.
[[noreturn]] void refuse_one_layout(const TrainOptions& given, const std::vector<Knob>& all,
                                    const std::vector<Knob>& applying, const std::vector<Knob>& vary, bool asked) {
  const bool has_devices = std::ranges::count(applying, "devices", &Knob::key) > 0;
  std::vector<Knob> harmless = all;
  std::erase_if(harmless, [](const Knob& knob) { return knob.learning == Learning::kOther; });
  throw ConfigError(
      concat("there is nothing to try in ", asked ? words(vary) : "what cannot change learning", ": ",
             has_devices && given.shards == 1 ? "the run has 1 shard, and so 1 replica; " : "no other layout fits; ",
             "give --shards 2, say, or let more vary with --vary ", words(applying), " (all",
             harmless.empty() ? "" : concat(" but ", words(harmless, " and ")), " change what is learned)"));
}

}  // namespace

const char* name_of(Learning learning) {
  constexpr std::array kNames{"same bits", "same", "other"};  // in the order of the values
  return kNames.at(static_cast<std::size_t>(learning));
}

std::string describe(const Layout& layout) {
  if (layout.values.empty()) return "as given";
  return joined(layout.values, [](const LayoutValue& value) { return value.key + " " + value.text; });
}

// The plan: take the knobs that apply and were asked for, grow the product knob by knob, drop combinations that make no
// sense, and refuse when only the given layout is left.
std::vector<Layout> layouts_of(const TrainOptions& given, const std::vector<std::string>& vary,
                               const Machine& machine) {
  const std::vector<Knob> all = algorithm_of(given).knobs(given, machine);
  std::vector<Knob> applying = all;
  std::erase_if(applying, [](const Knob& knob) { return !knob.applies; });
  const std::vector<Knob> varied = chosen(given, applying, vary);
  TrainOptions copy = given;
  const OptionTable table = option_table(copy);
  std::vector<Layout> layouts{{}};
  for (const Knob& knob : varied) {
    const std::string as_given = table.at(knob.key).text();
    std::vector<Layout> grown;
    for (const Layout& layout : layouts) {
      for (const std::string& text : texts_of(knob, as_given)) {
        Layout& with = grown.emplace_back(layout);
        if (text == as_given) continue;
        with.values.push_back({knob.key, text});
        with.learning = std::max(with.learning, knob.learning);
      }
    }
    layouts = std::move(grown);
  }
  std::erase_if(layouts,
                [&](const Layout& layout) { return !layout.values.empty() && !makes_sense(layout, given, machine); });
  if (layouts.size() == 1) refuse_one_layout(given, all, applying, varied, !vary.empty());
  return layouts;
}

// Flags of the same options and of their rivals go first; otherwise two flags would contradict each other.
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
    for (const std::string& rival : table.rivals_of(option)) replaced.insert(rival);
  }
  std::erase_if(sources.flags, [&replaced](const Setting& flag) { return replaced.contains(flag.key); });
  for (const LayoutValue& value : values)
    sources.flags.push_back({value.key, RawValue::of_text(value.text), {Layer::kFlag, kPlace}});
  return sources;
}

}  // namespace tandem::app

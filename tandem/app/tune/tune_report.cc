#include <algorithm>

#include "tandem/app/run/quantity_text.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::size_t kLeastNameWidth = 10;

std::string percent(double share) { return align_right(fixed(100 * share, 0) + "%", 8); }

std::size_t name_width(const TuneFindings& findings) {
  std::size_t width = kLeastNameWidth;
  for (const Measured& measured : findings.layouts) width = std::max(width, describe(measured.layout).size());
  return width;
}

std::string row(const Measured& measured, const Measured& given, bool is_chosen, std::size_t width) {
  const Rating rating = rate(measured, given);
  const bool is_given = measured.layout.values.empty();
  return concat(is_chosen ? "* " : "  ", align_left(describe(measured.layout), width), "  ",
                align_left(is_given ? "-" : name_of(measured.layout.learning), 9),
                align_right(count_text(rating.median), 13),
                align_right(concat(count_text(rating.lowest), " to ", count_text(rating.highest)), 18),
                align_right(fixed(rating.times, 2), 8), percent(rating.sample), percent(rating.learn),
                percent(rating.sync), align_right(concat(measured.runs.size()), 6), "\n");
}

// The fastest first, those that were left out after the first round behind the others.
std::vector<std::size_t> in_order(const TuneFindings& findings) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < findings.layouts.size(); ++i) {
    if (!findings.layouts[i].runs.empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&findings](std::size_t a, std::size_t b) {
    const Measured &one = findings.layouts[a], &other = findings.layouts[b];
    // More runs mean that a layout reached the later rounds.
    if (one.runs.size() != other.runs.size()) return one.runs.size() > other.runs.size();
    return rate(one, findings.layouts.front()).times > rate(other, findings.layouts.front()).times;
  });
  return order;
}

std::string outcome(const TuneFindings& findings) {
  if (!findings.chosen) return "stopped before all was measured: nothing is chosen, and nothing was written\n";
  const Measured& given = findings.layouts.front();
  if (*findings.chosen == 0)
    return concat("chosen: as given; no other layout was faster by more than ", fixed(100 * kNoise, 0), "%\n");
  const Measured& best = findings.layouts[*findings.chosen];
  return concat("chosen: ", describe(best.layout), ", ", fixed(rate(best, given).times, 2),
                " times as fast as given (median of ", best.runs.size(), " rounds)\n");
}

bool any_of_kind(const TuneFindings& findings, Learning learning) {
  return std::any_of(findings.layouts.begin(), findings.layouts.end(), [learning](const Measured& measured) {
    return !measured.layout.values.empty() && !measured.runs.empty() && measured.layout.learning == learning;
  });
}

// Explains the words of the column "learns" that the table has.
std::string notes(const TuneFindings& findings) {
  std::string text;
  if (any_of_kind(findings, Learning::kSameBits) && broken_promises(findings.layouts).empty())
    text += "same bits: learns as the given one, number by number; all such runs ended in its state (state_sha256)\n";
  if (any_of_kind(findings, Learning::kSameButForTiming))
    text += "same: learns as the given one, up to timing, on which the numbers of such runs depend in any case\n";
  if (any_of_kind(findings, Learning::kOther))
    text += "other: another run, which may need more steps or fewer to learn as much; compare its curve before use\n";
  return text;
}

void write_layout(JsonWriter& json, const Measured& measured, const Measured& given) {
  json.begin_object().key("settings").begin_object();
  for (const LayoutValue& value : measured.layout.values) json.key(value.key).value(value.text);
  json.end_object().key("learns").value(measured.layout.values.empty() ? "given" : name_of(measured.layout.learning));
  json.key("runs").value(measured.runs.size());
  if (!measured.runs.empty()) {
    const Rating rating = rate(measured, given);
    json.key("env_steps_per_s").begin_object().key("median").value(rating.median);
    json.key("lowest").value(rating.lowest).key("highest").value(rating.highest).end_object();
    json.key("times_given").value(rating.times).key("sample_share").value(rating.sample);
    json.key("learn_share").value(rating.learn).key("sync_share").value(rating.sync);
  }
  json.end_object();
}

}  // namespace

std::string to_text(const TuneFindings& findings, const std::string& program) {
  const std::size_t width = name_width(findings);
  std::string text =
      concat(findings.work, ", on ", counted(findings.cores, "core"), "; runs of ",
             count_text(static_cast<double>(findings.env_steps)), " steps\n\n  ", align_left("layout", width),
             "  learns     env steps/s         lowest to highest   times  sample   learn    sync  runs\n");
  for (const std::size_t i : in_order(findings))
    text += row(findings.layouts[i], findings.layouts.front(), findings.chosen == i, width);
  text += concat("\n", outcome(findings), notes(findings));
  if (!findings.output.empty())
    text += concat("written: ", findings.output, "; train with it: ", program, " train ", findings.output, "\n");
  return text;
}

std::string to_json(const TuneFindings& findings) {
  JsonWriter json;
  json.begin_object().key("work").value(findings.work).key("cores").value(findings.cores);
  json.key("env_steps_of_a_run").value(findings.env_steps).key("rounds").value(findings.rounds);
  json.key("layouts").begin_array();
  for (const Measured& measured : findings.layouts) write_layout(json, measured, findings.layouts.front());
  json.end_array().key("chosen");
  findings.chosen ? json.value(*findings.chosen) : json.value(nullptr);
  json.key("file");
  findings.output.empty() ? json.value(nullptr) : json.value(findings.output);
  return json.end_object().text();
}

std::string to_config_file(const TuneFindings& findings, const std::string& yaml) {
  const std::size_t chosen = findings.chosen.value_or(0);
  const Measured& best = findings.layouts.at(chosen);
  const std::string found =
      chosen == 0 ? concat("No layout was faster than the given one by more than ", fixed(100 * kNoise, 0), "%.")
                  : concat(describe(best.layout), ": ", fixed(rate(best, findings.layouts.front()).times, 2),
                           " times the environment steps/s of the given settings, median of ",
                           counted(findings.rounds, "round"),
                           ".\n# What it learns, against those: ", name_of(best.layout.learning), ".");
  // The first line of `yaml` is its own head, which this one replaces.
  return concat("# Written by tandem tune: ", findings.work, ", on ", counted(findings.cores, "core"), ".\n# ", found,
                "\n", yaml.substr(yaml.find('\n') + 1));
}

}  // namespace tandem::app

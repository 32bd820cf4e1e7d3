#include "tandem/app/config/train_options.h"
#include "tandem/app/simulate/scale.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string cell(double value, int digits, std::size_t width) { return align_right(fixed(value, digits), width); }

// The modelled points are measured against one modelled rank, so that the machine of the measured ones is not in them.
double of_one_rank(const std::vector<ScalePoint>& points) {
  return points.front().samples_per_s.front() / static_cast<double>(points.front().ranks);
}

double efficiency(const ScalePoint& point, std::size_t policy, double one) {
  return point.samples_per_s[policy] / (static_cast<double>(point.ranks) * one);
}

std::string rows(const std::vector<ScalePoint>& points) {
  std::string text;
  for (const ScalePoint& point : points) {
    text += cell(static_cast<double>(point.ranks), 0, 7);
    for (std::size_t policy = 0; policy < point.samples_per_s.size(); ++policy) {
      text += cell(point.samples_per_s[policy], 0, 14) + cell(efficiency(point, policy, of_one_rank(points)), 3, 7);
    }
    text += '\n';
  }
  return text;
}

std::string work_text(const SimulatedWork& work) {
  return concat(work.steps, " steps of ", work.step.text(), " ms, ", work.minibatches, " minibatches of ",
                work.minibatch.text(), " ms, ", work.parameters, " parameters",
                work.slow_factor == 1 ? "" : concat(", the last rank ", work.slow_factor, " times slower"));
}

// Where the time of an update goes in the model, with preemption.
std::string limits(const ScaleFindings& findings) {
  std::string text = "\nTime of a modelled update with preempt, ms:\n  ranks     rollout    learning        sums\n";
  for (const ScalePoint& point : findings.modelled) {
    const ModelledUpdate update =
        model_update(findings.options.work, findings.options.wire, point.ranks, pipeline::Stragglers::kPreempt);
    text += cell(static_cast<double>(point.ranks), 0, 7) + cell(update.rollout_ms, 1, 12) +
            cell(update.learn_ms, 1, 12) + cell(update.wire_ms, 1, 12) + "\n";
  }
  return text;
}

void write_points(JsonWriter& json, const std::vector<ScalePoint>& points) {
  json.begin_array();
  for (const ScalePoint& point : points) {
    json.begin_object().key("ranks").value(point.ranks);
    for (std::size_t policy = 0; policy < point.samples_per_s.size(); ++policy) {
      json.key(word_of(kPolicies[policy])).begin_object();
      json.key("samples_per_s").value(point.samples_per_s[policy]);
      json.key("efficiency").value(efficiency(point, policy, of_one_rank(points))).end_object();
    }
    json.end_object();
  }
  json.end_array();
}

// A policy has one colour, whether measured or modelled; the stroke tells the two apart.
void add_curves(const std::vector<ScalePoint>& points, const std::string& suffix, Stroke stroke, Chart& chart) {
  for (std::size_t policy = 0; policy < std::size(kPolicies); ++policy) {
    Curve& curve = chart.curves.emplace_back();
    curve.label = concat(word_of(kPolicies[policy]), suffix);
    curve.stroke = stroke;
    curve.color_of = policy;
    for (const ScalePoint& point : points)
      curve.points.push_back({static_cast<double>(point.ranks), efficiency(point, policy, of_one_rank(points))});
  }
}

}  // namespace

std::string to_text(const ScaleFindings& findings) {
  std::string text = concat("An update: ", work_text(findings.options.work), "\n\n");
  std::string head = "  ranks";
  for (const pipeline::Stragglers policy : kPolicies) {
    head += concat(align_right(std::string(word_of(policy)), 14), "   eff.");
  }
  head += '\n';
  text += concat("Samples a second and efficiency, measured in ", findings.options.updates, " updates each:\n", head,
                 rows(findings.measured));
  text += concat("\nBy the model (docs/scaling.md), latency ", findings.options.wire.latency_ms, " ms, ",
                 findings.options.wire.gigabits_per_s, " Gbit/s:\n", head, rows(findings.modelled));
  return text + limits(findings);
}

std::string to_json(const ScaleFindings& findings) {
  JsonWriter json;
  json.begin_object().key("update").value(work_text(findings.options.work)).key("measured");
  write_points(json, findings.measured);
  json.key("modelled");
  write_points(json, findings.modelled);
  return json.end_object().text();
}

Chart chart_of(const ScaleFindings& findings) {
  Chart chart{.title = "Efficiency of DD-PPO by number of ranks",
              .subtitle = work_text(findings.options.work),
              .x_label = "ranks",
              .y_label = "efficiency",
              .x_scale = Scale::kLog2};
  add_curves(findings.measured, "", Stroke::kSolid, chart);
  add_curves(findings.modelled, ", model", Stroke::kDashed, chart);
  return chart;
}

}  // namespace tandem::app

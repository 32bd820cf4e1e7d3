#include "tandem/app/run/gradient_metrics.h"

#include <string>

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char *kSteps = "steps_made", *kGradients = "step_gradients", *kRows = "effective_batch";

void add_over_steps(const std::string& name, const OverStepMetrics& figure, Record& record) {
  record.add(name + "_min", figure.min).add(name + "_mean", figure.mean).add(name + "_max", figure.max);
}

OverStepMetrics read_over_steps(const std::string& name, const JsonValue& line) {
  return {.min = line.at(name + "_min").as_double(),
          .mean = line.at(name + "_mean").as_double(),
          .max = line.at(name + "_max").as_double()};
}

std::string prefix_of(std::size_t replica) { return concat("replica/", replica, "/"); }

}  // namespace

void add_gradients(const GradientMetrics& metrics, Record& record) {
  record.add(kSteps, metrics.steps);
  add_over_steps(kGradients, metrics.step_gradients, record);
  add_over_steps(kRows, metrics.effective_batch, record);
  for (std::size_t i = 0; i < metrics.replicas.size(); ++i) {
    const ReplicaGradientMetrics& replica = metrics.replicas[i];
    const std::string prefix = prefix_of(i);
    record.add(prefix + "offered", replica.offered).add(prefix + "accepted", replica.accepted);
    record.add(prefix + "applied", replica.applied).add(prefix + "dropped", replica.dropped);
    record.add(prefix + "waited_ms", replica.waited_ms);
  }
}

std::optional<GradientMetrics> read_gradients(const JsonValue& line) {
  if (line.find(kSteps) == nullptr) return std::nullopt;
  GradientMetrics metrics{.steps = line.at(kSteps).as_int64(),
                          .step_gradients = read_over_steps(kGradients, line),
                          .effective_batch = read_over_steps(kRows, line)};
  for (std::size_t i = 0; line.find(prefix_of(i) + "offered") != nullptr; ++i) {
    const auto count = [&](const char* name) { return line.at(prefix_of(i) + name).as_int64(); };
    metrics.replicas.push_back({.offered = count("offered"),
                                .accepted = count("accepted"),
                                .applied = count("applied"),
                                .dropped = count("dropped"),
                                .waited_ms = line.at(prefix_of(i) + "waited_ms").as_double()});
  }
  return metrics;
}

}  // namespace tandem::app

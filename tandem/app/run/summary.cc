#include "tandem/app/run/summary.h"

#include <array>
#include <cstddef>
#include <variant>

#include "tandem/base/json_writer.h"

namespace tandem::app {
namespace {

const char* name_of(ResumeExactness exactness) {
  constexpr std::array kNames{"no", "exactly", "inexactly"};  // in the order of the values
  return kNames.at(static_cast<std::size_t>(exactness));
}

// Figures go under the names that they have in metrics.jsonl, beside the other keys and not in an object of their own.
void write_members(JsonWriter& json, const Record& record) {
  for (const auto& [name, value] : record.fields()) {
    json.key(name);
    std::visit([&json](const auto& held) { json.value(held); }, value);
  }
}

void write_figure(JsonWriter& json, const char* name, const OverSteps& figure) {
  json.key(name).begin_object();
  json.key("min").value(figure.min).key("mean").value(figure.mean).key("max").value(figure.max).end_object();
}

void write_steps(JsonWriter& json, const StepSummary& steps) {
  json.key("steps").begin_object().key("made").value(steps.made);
  write_figure(json, "gradients", steps.gradients);
  write_figure(json, "effective_batch", steps.effective_batch);
  json.end_object();
}

}  // namespace

const char* name_of(RunEnd end) {
  constexpr std::array kNames{"finished", "stopped", "failed"};  // in the order of the values
  return kNames.at(static_cast<std::size_t>(end));
}

// The order of the keys is part of the format that users see. Keys that have no meaning for a run are left out: the
// failure of a run that did not fail, the hashes of one that did, and the lags of one without a pipeline.
std::string to_json(const Summary& summary) {
  JsonWriter json;
  json.begin_object();
  json.key("algo").value(summary.algo).key("env").value(summary.env).key("seed").value(summary.seed);
  json.key("devices").value(summary.devices).key("shards").value(summary.shards);
  json.key("total_steps").value(summary.total_steps);
  json.key("end").value(name_of(summary.end));
  if (!summary.reason.empty())
    json.key("reason").value(summary.reason).key("reached_return").value(summary.reached_return);
  if (summary.end == RunEnd::kFailed) json.key("failure").value(summary.failure);
  json.key("resumed").value(name_of(summary.resumed));
  write_members(json, to_record(summary.last));
  json.key("solved_at_env_steps");
  summary.solved_at_env_steps ? json.value(*summary.solved_at_env_steps) : json.value(nullptr);
  if (summary.end != RunEnd::kFailed)
    json.key("params_sha256").value(summary.params_sha256).key("state_sha256").value(summary.state_sha256);
  json.key("peak_rss_mb").value(summary.peak_rss_mb);
  if (!summary.policy_lag_histogram.empty()) {
    json.key("policy_lag_histogram").begin_array();
    for (const std::int64_t steps : summary.policy_lag_histogram) json.value(steps);
    json.end_array();
  }
  if (summary.steps) write_steps(json, *summary.steps);
  json.key("torch").value(summary.torch).key("cpu").value(summary.cpu);
  json.key("replicas").begin_array();
  for (const ReplicaUsage& replica : summary.replicas) {
    json.begin_object().key("rows").value(replica.rows);
    json.key("thread_cpu_s").value(replica.thread_cpu_s);
    json.key("gradients").value(replica.gradients).key("dropped").value(replica.dropped);
    // An accepted gradient may still be unused: the step that it was for may not have been made before the end.
    json.key("accepted").value(replica.gradients - replica.dropped).key("applied").value(replica.applied);
    json.key("waited_s").value(replica.waited_s);
    json.key("staleness_mean").value(replica.staleness_mean);
    json.key("staleness_max").value(replica.staleness_max).end_object();
  }
  json.end_array().end_object();
  return json.text();
}

}  // namespace tandem::app

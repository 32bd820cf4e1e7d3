// sync/data_parallel_report.h: where the time of this rank's steps goes, and how much it sends: the figures that the
// logger of Python's DistributedDataParallel has.
//
//     JsonlSink sink("metrics.jsonl");
//     ...                                                                     // after an epoch:
//     sink.write(Record(sync::figures_of(parallel.report())).add("epoch", epoch));
//
// A step lasts from the end of the one before to the end of its average() or step(), and has three parts:
//
//   forward   until backward(), accumulate() or skip() is called: the forward pass, and whatever else the program does
//             there: reading data, the step of an optimizer of its own, an evaluation (see DataParallel::report())
//   backward  in backward() and accumulate()
//   the rest  from backward() to average() or step(), and in these: waiting for sums, clipping, the update
//
// What a device does while the program goes on is counted where the program waits for it: with CUDA mostly in backward,
// which ends by reading the loss.
//
// Communication is under way from the start of the first sum of gradients to the return of the last wait; one that has
// come before this rank asks for it counts until then. Where the group goes on alone (Group::goes_on_alone(): across a
// network) sums start in backward(), and what is not waited for is hidden. Elsewhere (shared memory) all work of a sum
// is done in the wait, and with a compression gradients travel when all passes are over: then all of it is exposed.
//
// Threads: values.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::sync {

/// Of a step, or a mean over steps. communication = exposed + hidden. Each is a part of
/// `seconds`.
struct StepCosts {
  double seconds = 0;
  double forward_seconds = 0, backward_seconds = 0;
  double communication_seconds = 0;  // with sums under way
  double exposed_seconds = 0;        // of these: spent waiting and adding, as StepReport::wait_seconds; 0 on one rank
  double hidden_seconds = 0;         // of these: meanwhile this rank made its pass, or updates with what had come
  // Of the tensors that this rank handed to the step's collectives: gradients as they travel, presence flags, buffers
  // of the module, counts. The links' own bytes differ: a ring sends each about twice. 0 on one rank.
  double bytes = 0;
};

struct DataParallelReport {
  std::int64_t steps = 0;  // since the last report, or since construction; those of skip() and finish() count
  StepCosts mean{};        // over these steps; zeros without any
  StepCosts last{};        // of the last step; zeros before the first
  // Parameters that train: tensors, their elements, and bytes.
  std::int64_t parameters = 0, elements = 0, parameter_bytes = 0;
  // Bytes of the runs of neighbouring parameters whose dense gradients are summed as one, padding between parameters
  // included, before any compression; in the order of their starts, which the first step may change. Across a network
  // these are buckets (bucket_exchange.h); elsewhere, and with a compression, all parameters of a dtype. None on one
  // rank.
  std::vector<std::int64_t> bucket_bytes{};
};

/// The means of the report by name, for metrics (docs/metrics.md): sync/steps, sync/step_seconds,
/// sync/forward_seconds, sync/backward_seconds, sync/communication_seconds, sync/exposed_seconds, sync/hidden_seconds,
/// sync/bytes, sync/buckets. Means without a step are NaN, which sinks write as null.
[[nodiscard]] std::vector<std::pair<std::string, double>> figures_of(const DataParallelReport& report);

}  // namespace tandem::sync

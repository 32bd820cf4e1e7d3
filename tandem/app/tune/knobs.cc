#include "tandem/app/tune/tuning.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// The effect on learning when other replicas, or another of the strategies with the same numbers, share the work.
Learning of_shared_work(const TrainOptions& given) {
  if (!sync::is_lockstep(given.strategy)) return Learning::kOther;
  // A replica's speed decides what the others do, or random numbers are drawn by whoever comes first.
  const bool depends_on_timing = algorithm_of(given).depends_on_timing(given) || given.rng == Rng::kUnordered ||
                                 given.cuda_kernels == device::CudaKernels::kFastest;
  return depends_on_timing ? Learning::kSameButForTiming : Learning::kSameBits;
}

}  // namespace

// The largest value is tried even if it is no power of two: it is the number of cores.
std::vector<std::string> powers_up_to(std::int64_t most) {
  std::vector<std::string> texts;
  for (std::int64_t n = 1; n < most; n *= 2) texts.push_back(concat(n));
  texts.push_back(concat(most));
  return texts;
}

std::vector<std::string> around(std::int64_t given) {
  std::vector<std::string> texts{concat(given * 2), concat(given * 4)};
  // Half of an odd number is not whole.
  if (given % 2 == 0) texts.insert(texts.begin(), concat(given / 2));
  return texts;
}

Knob devices_knob(const TrainOptions& given, const Machine& machine) {
  Knob knob{.word = "devices",
            .help =
                "replicas, at most one a shard and a core: the same bits (asynchronous, sync_replicas and "
                "local_steps: other numbers)",
            .key = "devices",
            .learning = of_shared_work(given)};
  for (const DeviceChoice& choice : machine.devices) knob.texts.push_back(choice.text);
  return knob;
}

Knob strategy_knob(const TrainOptions& given) {
  // The CPU's arithmetic, where the other strategies have the devices'.
  const bool is_on_cpu = given.strategy == sync::StrategyKind::kParameterServer &&
                         given.parameter_server.variables == sync::Variables::kOnCpu;
  return {.word = "strategy",
          .help = "replicated or divided: the same bits",
          .key = "strategy",
          .texts = {"replicated", "divided"},
          .learning = is_on_cpu ? Learning::kOther : of_shared_work(given),
          .applies = sync::is_lockstep(given.strategy)};
}

Knob shards_knob(const Machine& machine) {
  return {.word = "shards",
          .help = "and so env groups, at most one a core: other random streams, other numbers",
          .key = "shards",
          .texts = powers_up_to(machine.cores)};
}

Knob num_envs_knob(const TrainOptions& given) {
  return {.word = "num_envs",
          .help = "a half to four times the given: other batches, other numbers",
          .key = "num_envs",
          .texts = around(given.num_envs)};
}

}  // namespace tandem::app

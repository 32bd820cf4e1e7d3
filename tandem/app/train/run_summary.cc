#include "tandem/app/train/run_summary.h"

#include "tandem/metrics/process_stats.h"

namespace tandem::app {

Summary summary_of(const TrainOptions& options, const RunProgress& progress, RunEnd end) {
  return {.algo = std::string(word_of(options.algo)),
          .env = options.env,
          .devices = options.devices,
          .seed = options.seed,
          .total_steps = options.total_steps,
          .end = end,
          .resumed = progress.resumed,
          .solved_at_env_steps = progress.solved_at_env_steps,
          .params_sha256 = {},
          .state_sha256 = {},
          .peak_rss_mb = peak_rss_mb(),
          .replicas = {},
          .torch = torch_version(),
          .cpu = instruction_sets(options)};
}

}  // namespace tandem::app

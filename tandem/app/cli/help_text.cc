// Longer texts stand here, so that command_line.cc shows the flags alone. The keys and their defaults come from the
// option table.
#include "tandem/app/cli/help_text.h"

#include "tandem/app/config/config_text.h"
#include "tandem/app/config/train_options.h"

namespace tandem::app {

std::string program_description() {
  return "Trains policies data-parallel, with the same numbers on any number of replicas.";
}

std::string program_footer() {
  return R"(First steps:
  tandem train --env CartPole-v1 --seed 1 --run-dir runs/pole
  tandem eval runs/pole --episodes 100
  tandem envs

Exit codes: 0 done; 2 you can fix it; 3 it failed for a reason outside; 70 a defect of tandem; 130 stopped by a signal,
with a checkpoint.
)";
}

std::string train_footer() {
  // The listing shows defaults, so it is made from options that nothing has set.
  TrainOptions defaults;
  return R"(Example:
  tandem train --env CartPole-v1 --seed 1 --devices cpu:2 --run-dir runs/pole
  tandem train --algo dd_ppo --env CartPole-v1 --ranks 2
  tandem train mine.yaml --set ppo.learning_rate=1e-3 --set policy.hidden=128,128

What is set where: defaults < the algorithm's own (dd_ppo) < the settings shipped for the environment < CONFIG < flags.
Counts (environments, rows, steps) are totals of the run, whatever the devices, unless they are called "per rank".

Signals, to any rank: SIGINT (Ctrl-C), SIGTERM and SIGUSR2 end the run after its update, with a checkpoint; SIGUSR1 does
too and has Slurm queue the job again (sbatch --signal=USR1@90; scontrol requeue $SLURM_JOB_ID). Exit code 130 then, and
0 when all steps were made. Ctrl-C after another signal ends the process at once.

Keys for CONFIG, in sections or dotted, and for --set, with their defaults:
)" + option_listing(option_table(defaults));
}

}  // namespace tandem::app

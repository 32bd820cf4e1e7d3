# The public headers, which are those that users' programs include. They are named here alone, in the groups of README's
# guide. `make install` puts them into include/tandem, and the library's other headers into include/tandem/internal,
# where the public ones find them. tools/check_public.py keeps their number at 40 or fewer and compares this list with
# the guide and with what the examples and the programs in the documents include.
set(TANDEM_PUBLIC_HEADERS
  # Train a LibTorch model
  learner/fit.h
  sync/data_parallel.h
  sync/local_steps.h
  sync/rank_sampler.h
  learner/replica_team.h
  learner/learner.h
  learner/replayed_loss.h
  sync/strategies.h
  device/device_set.h
  sync/mean/gradient_compression.h
  sync/mean/cast_compression.h
  sync/mean/top_k_compression.h
  sync/mean/power_sgd_compression.h
  # What a model is made of, and its files
  model/optimizer.h
  model/autocast.h
  model/dropout.h
  model/init.h
  sync/sync_batch_norm.h
  model/distribution/distribution.h
  model/files/torch_file.h
  model/files/torch_optimizer.h
  model/files/checkpoint_store.h
  # Run on several processes
  comm/world.h
  comm/world_flags.h
  comm/collectives.h
  comm/store/launcher_environment.h
  # Write an environment
  rl/env/env_concepts.h
  rl/env/multi_agent_adapter.h
  rl/env/env_group.h
  rl/env/env_registry.h
  rl/env/plugin.h
  # Train a policy from your own program
  rl/policy/policy.h
  rl/policy/mlp_policy.h
  rl/policy/recurrent_policy.h
  rl/algo/ppo/ppo_run.h
  rl/algo/impala/impala_run.h
  pipeline/learner_pipeline.h
  app/program.h
  app/algo/algorithms.h
  base/error.h
)

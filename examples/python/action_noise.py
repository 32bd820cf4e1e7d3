"""TD3 with noise that is correlated over time (OrnsteinUhlenbeckActionNoise)."""

import tandem

tandem.train(
    env="Pendulum-v1",
    algo="td3",
    total_steps=2_000,
    td3={"exploration_noise": 0.2, "noise_correlation": 0.85, "learning_starts": 500},
)

"""Steps vector environments of Python with random actions, each with a process an environment or all in one. Prints a
line of JSON for each.

python vector_step.py CartPole-v1 64 --seconds 0.5
"""

import argparse

import gymnasium
from gymnasium.vector import AutoresetMode
from step_line import PREPARED, measure


def of_gymnasium(mode):
    def prepare(name, count):
        keywords = {"autoreset_mode": AutoresetMode.SAME_STEP}
        env = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode, vector_kwargs=keywords)
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(PREPARED)]
        return env, lambda number: env.step(actions[number % PREPARED])

    return prepare


def of_sb3(name, count):
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    env = make_vec_env(name, n_envs=count, vec_env_cls=SubprocVecEnv)
    env.reset()
    env.action_space.seed(0)
    actions = [[env.action_space.sample() for _ in range(count)] for _ in range(PREPARED)]
    return env, lambda number: env.step(actions[number % PREPARED])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, required=True, help="of each case")
    asked = parser.parse_args()
    makers = {"AsyncVectorEnv": of_gymnasium("async"), "SyncVectorEnv": of_gymnasium("sync"), "SubprocVecEnv": of_sb3}
    for contender, prepare in makers.items():
        env, step = prepare(asked.name, asked.count)
        measure(contender, asked.name, asked.count, step, asked.seconds)
        env.close()


if __name__ == "__main__":
    main()

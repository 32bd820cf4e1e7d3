"""Steps vector environments of Python with random actions: with a process an environment, all in one, or by what the
package itself brings. Prints a line of JSON for each.

python vector_step.py CartPole-v1 64 --seconds 0.5 --only AsyncVectorEnv
"""

import argparse

import gymnasium
from gymnasium.vector import AutoresetMode
from step_line import PREPARED, measure

# As the bridge sets them (atari_options() of tandem/rl/env/python/python_envs.h).
ATARI = {
    "frameskip": 4,
    "maxpool": True,
    "grayscale": True,
    "img_height": 84,
    "img_width": 84,
    "stack_num": 4,
    "noop_max": 30,
    "use_fire_reset": True,
    "episodic_life": True,
    "reward_clipping": True,
    "repeat_action_probability": 0.25,
    "full_action_space": False,
}


def stepped(env):
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(PREPARED)]
    return env, lambda number: env.step(actions[number % PREPARED])


def of_gymnasium(mode, **more):
    def prepare(name, count):
        keywords = {"autoreset_mode": AutoresetMode.SAME_STEP, **more}
        return stepped(gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode, vector_kwargs=keywords))

    return prepare


def of_package(name, count):
    keywords = {}
    if name.startswith("ALE/"):
        import ale_py

        gymnasium.register_envs(ale_py)
        keywords = {"autoreset_mode": AutoresetMode.SAME_STEP, **ATARI}
    return stepped(gymnasium.make_vec(name, num_envs=count, vectorization_mode="vector_entry_point", **keywords))


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
    makers = {
        "AsyncVectorEnv": of_gymnasium("async"),
        "AsyncVectorEnv, pipes": of_gymnasium("async", shared_memory=False),
        "SyncVectorEnv": of_gymnasium("sync"),
        "SubprocVecEnv": of_sb3,
        "vector_entry_point": of_package,
    }
    parser.add_argument("--seconds", type=float, required=True, help="of each case")
    parser.add_argument("--only", choices=makers, action="append", required=True)
    asked = parser.parse_args()
    for contender in asked.only:
        env, step = makers[contender](asked.name, asked.count)
        measure(contender, asked.name, asked.count, step, asked.seconds)
        env.close()


if __name__ == "__main__":
    main()

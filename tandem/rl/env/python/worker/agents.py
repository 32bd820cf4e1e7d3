class JointEnv:
    """An environment of PettingZoo's parallel API as one of one agent (python_agents.h), who is all agents together."""

    metadata = {}

    def __init__(self, env):
        self.env, self.names = env, list(env.possible_agents)
        spaces = [env.observation_space(name) for name in self.names]
        told = gymnasium.spaces.Box(0, 255, (11 * len(self.names),), np.uint8)
        self.observation_space = gymnasium.spaces.Tuple((*spaces, told))
        self.action_space = [Actions(env.action_space(name)) for name in self.names]
        # Who is not in the game shows its last observation; before it has one, any.
        self.shown = {}
        for name, space in zip(self.names, spaces):
            space.seed(0)
            self.shown[name] = space.sample()
        self.masked = set()

    def told(self, rewards={}, terminations={}, truncations={}):
        all_told = b""
        for name in self.names:
            flags = (terminations.get(name, False), truncations.get(name, False), name in self.env.agents)
            all_told += np.float64(rewards.get(name, 0)).tobytes() + bytes(bool(flag) for flag in flags)
        return np.frombuffer(all_told, np.uint8)

    def all_shown(self, observations, infos, told):
        self.shown.update((name, its) for name, its in observations.items() if name in self.shown)
        masks = [self.mask(infos.get(name), actions) for name, actions in zip(self.names, self.action_space)]
        info = {"action_mask": np.concatenate(masks)} if all(mask is not None for mask in masks) else {}
        return (*(self.shown[name] for name in self.names), told), info

    def mask(self, info, actions):
        """Who has none may do everything; None where there are no choices."""
        if actions.type == "box":
            return None
        mask = mask_of(info)
        return np.ones(sum(actions.sizes), dtype=np.uint8) if mask is None else mask

    def reset(self, seed=None):
        observations, infos = self.env.reset(seed=seed) if seed is not None else self.env.reset()
        self.masked.update(name for name in self.names if mask_of(infos.get(name)) is not None)
        return self.all_shown(observations, infos, self.told())

    def step(self, actions):
        acting = {name: action for name, action in zip(self.names, actions) if name in self.env.agents}
        observations, rewards, terminations, truncations, infos = self.env.step(acting)
        shown, info = self.all_shown(observations, infos, self.told(rewards, terminations, truncations))
        return shown, 0.0, not self.env.agents, False, info

    @property
    def render_mode(self):
        return getattr(self.env, "render_mode", None)

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()


class JointActions:
    """Actions of all agents, one behind the other in a row."""

    def __init__(self, agents):
        self.agents = agents
        types = {agent.type == "box" for agent in agents}
        if len(types) > 1:
            raise Refused("some agents take numbers, and others choices; all take the one, or all the other")
        self.type = "box" if types == {True} else "multi_discrete"

    def elements(self):
        return sum(agent.elements() for agent in self.agents)

    def of(self, rows):
        parts, begin = [], 0
        for agent in self.agents:
            parts.append(agent.of(rows[:, begin:begin + agent.elements()]))
            begin += agent.elements()
        return zip(*parts)


def name_leaves(leaves, names):
    """By the agent that sees them, in the place of its number."""
    for leaf in leaves:
        if leaf.path[0] < len(names):
            leaf.name = "/".join((names[leaf.path[0]], *map(str, leaf.path[1:])))


def describe_agents(env):
    """What each agent shows and takes; of the leaves their names within it."""
    described = []
    for name, actions in zip(env.names, env.action_space):
        leaves = leaves_of(env.env.observation_space(name))
        described.append({"name": name, "observation": [leaf.describe() for leaf in leaves],
                          "action": actions.describe(), "mask": name in env.masked})
    return described

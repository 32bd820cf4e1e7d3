# Of names; a package may register as many as it likes.
MOST_LISTED = 5000
# What an environment of these modules imports, and what brings it.
NEEDED = {
    "gymnasium.envs.box2d": ("Box2D", "gymnasium[box2d]"),
    "gymnasium.envs.mujoco": ("mujoco", "gymnasium[mujoco]"),
    "gymnasium.envs.phys2d": ("jax", "gymnasium[jax]"),
    "gymnasium.envs.tabular": ("jax", "gymnasium[jax]"),
}
# Shown where they are not installed; others are found by what they need.
WELL_KNOWN = ("ale-py", "minigrid", "pettingzoo", "highway-env", "gymnasium-robotics")


def is_listing(name):
    """Whether a name is the begin of others: gymnasium:, gymnasium:MODULE:, pettingzoo:, ALE/."""
    return name.endswith(":") or name == "ALE/"


def listing(name):
    """What `tandem envs gymnasium:` shows of this Python."""
    require_gymnasium()
    kind, _, module = name.rstrip(":").partition(":")
    if kind == "pettingzoo":
        found = parallel_modules(module or "pettingzoo")
    else:
        found = registered_names(name, "ale_py" if name == "ALE/" else module)
    packages = known_packages()
    installed = {its["name"].lower().replace("_", "-") for its in packages}
    return {
        "python": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3], "count": len(found),
        "names": found[:MOST_LISTED], "packages": packages[:MOST_LISTED],
        "absent": [its for its in WELL_KNOWN if its not in installed],
    }


def registered_names(kind, module):
    """Those of the newest version that are registered in this Python, or that importing a module registers."""
    before = set(gymnasium.registry)
    if module:
        import_named(module, kind.rstrip(":"))
    newest, found = {}, []
    for spec in gymnasium.registry.values():
        newest[spec.namespace, spec.name] = max(newest.get((spec.namespace, spec.name), 0), spec.version or 0)
    for name, spec in sorted(gymnasium.registry.items()):
        where = module_of(spec)
        # Those of gymnasium.envs itself only say that another package is needed.
        if where == "gymnasium.envs" or (spec.version or 0) < newest[spec.namespace, spec.name]:
            continue
        if kind == "ALE/" and spec.namespace != "ALE" or module and not is_of(module, where, name in before):
            continue
        found.append({"name": full_name(name, module), "of": where, "lacks": lack_of(where)})
    return found


def full_name(name, module):
    if name.startswith("ALE/"):
        return name
    return "gymnasium:%s:%s" % (module, name) if module else "gymnasium:" + name


def module_of(spec):
    """The package that makes it, without the file: gymnasium.envs.box2d, minigrid.envs."""
    entry = spec.entry_point or spec.vector_entry_point
    path = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", None) or ""
    parts = path.split(".")
    return ".".join(parts[:3] if parts[:2] == ["gymnasium", "envs"] else parts[:2])


def is_of(module, where, was_there):
    """A module may have been imported before, and it may register what another one makes."""
    return not was_there or where.split(".")[0] == module.split(".")[0]


def lack_of(where):
    package, brings = NEEDED.get(where, (None, None))
    return brings if package is not None and importlib.util.find_spec(package) is None else None


def parallel_modules(package):
    """Modules of a package's parts, each a version of an environment, whose text names a parallel_env(). None is
    imported."""
    parent, found = import_named(package, "pettingzoo"), []
    for part in pkgutil.iter_modules(getattr(parent, "__path__", [])):
        path = "%s.%s" % (package, part.name)
        spec = importlib.util.find_spec(path) if part.ispkg else None
        for its in pkgutil.iter_modules(spec.submodule_search_locations if spec else []):
            file = os.path.join(getattr(its.module_finder, "path", ""), its.name + ".py")
            if re.search(r"_v\d+$", its.name) and os.path.isfile(file):
                with open(file, encoding="utf-8", errors="replace") as text:
                    if "parallel_env" in text.read(1 << 20):
                        found.append({"name": "pettingzoo:%s.%s" % (path, its.name), "of": path, "lacks": None})
    return sorted(found, key=lambda its: its["name"])


def known_packages():
    """The installed packages that need gymnasium or pettingzoo, and these two."""
    found = {}
    for its in importlib.metadata.distributions():
        name = its.metadata["Name"] or ""
        needs = {re.split(r"[^\w.-]", need, maxsplit=1)[0].lower() for need in its.requires or []
                 if "extra ==" not in need}
        if name.lower() in ("gymnasium", "pettingzoo", "ale-py") or needs & {"gymnasium", "pettingzoo"}:
            found[name.lower()] = {"name": name, "version": its.version, "lists": lists_of(its, name.lower())}
    return [found[name] for name in sorted(found)]


def lists_of(package, name):
    """What lists its environments."""
    known = {"gymnasium": "gymnasium:", "pettingzoo": "pettingzoo:", "ale-py": "ALE/"}
    if name in known:
        return known[name]
    folders = {file.parts[0] for file in package.files or [] if len(file.parts) == 2 and file.name == "__init__.py"}
    likely = name.replace("-", "_")
    modules = sorted(folders, key=lambda folder: (folder.lower() != likely, folder))
    return "gymnasium:%s:" % modules[0] if modules else None

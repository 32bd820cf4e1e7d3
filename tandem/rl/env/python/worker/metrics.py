class Metrics:
    """Numbers in `info`, by python.metrics: NAME as the last step of an episode tells it, mean:NAME as the mean of what
    its steps tell. What is not told, or is no finite number, is not known, which a NaN says."""

    def __init__(self, texts, count):
        self.names = [text[len("mean:"):] if text.startswith("mean:") else text for text in texts]
        self.are_means = np.array([text.startswith("mean:") for text in texts], dtype=bool)
        self.sums, self.told = np.zeros((count, len(texts))), np.zeros((count, len(texts)))

    @staticmethod
    def describe(texts):
        metrics = Metrics(texts, 0)
        overs = ["steps" if is_mean else "episodes" for is_mean in metrics.are_means]
        return [{"name": name, "over": over} for name, over in zip(metrics.names, overs)]

    def begin(self, rows=slice(None)):
        self.sums[rows], self.told[rows] = 0, 0

    def of_one(self, e, info, ends):
        """What an episode's end tells; None where it has not ended."""
        if not ends and not self.are_means.any():
            return None
        values = np.array([number_in(info, name) for name in self.names])
        return self.after(e, values) if ends else self.add(e, values)

    def of_all(self, infos, ended):
        """The same of environments that are stepped as one; written are the rows of those that ended."""
        values = np.array([numbers_in(infos, name, len(ended)) for name in self.names]).T
        finals = infos.get("final_info")
        if finals is not None and ended.any():
            at_end = np.array([numbers_in(finals, name, len(ended)) for name in self.names]).T
            values[ended] = at_end[ended]
        return self.after(slice(None), values)

    def add(self, rows, values):
        is_told = np.isfinite(values)
        self.sums[rows] += np.where(is_told, values, 0)
        self.told[rows] += is_told

    def after(self, rows, values):
        self.add(rows, values)
        with np.errstate(invalid="ignore"):
            means = self.sums[rows] / self.told[rows]
        return np.where(self.are_means, means, values)


def number_in(info, name):
    """The number of this name; a NaN where there is none."""
    value = info.get(name) if isinstance(info, dict) else None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return float("nan")
    return number if np.isfinite(number) else float("nan")


def numbers_in(infos, name, count):
    """As vector environments have them: an array, and beside it which of its elements are told."""
    values, are_told = infos.get(name), infos.get("_" + name)
    try:
        numbers = np.array(values, dtype=np.float64).reshape(count)
    except (TypeError, ValueError):
        return np.full(count, np.nan)
    numbers[~np.isfinite(numbers)] = np.nan
    if are_told is not None:
        numbers[~np.asarray(are_told, dtype=bool)] = np.nan
    return numbers



class Memory:
    """The memory of region_layout.h, and the socket that wakes the other side."""

    # Places of 32-bit words, and of 64-bit ones.
    REQUEST, COMMAND, DONE, OUTCOME, SLEEPS = 128 // 4, 132 // 4, 192 // 4, 196 // 4, 320 // 4
    ARGUMENT, VALUE = 136 // 8, 200 // 8

    def __init__(self):
        for descriptor in (SOCKET, MEMORY):
            os.set_inheritable(descriptor, False)
        self.socket = socket.socket(fileno=SOCKET)
        self.bytes = mmap.mmap(MEMORY, 0)
        self.words, self.longs = memoryview(self.bytes).cast("I"), memoryview(self.bytes).cast("Q")
        self.words[self.SLEEPS] = 1  # for ever: it never spins
        self.requests = 0
        self.environments, self.leaves, self.elements = self.words[3], self.words[6], self.words[8]
        self.action_type, self.mask_elements, self.metrics = self.words[7], self.words[9], self.words[10]
        self.window = self.longs[15]

    def wait(self):
        """The next command and its argument. Ends the process when the training has let it go."""
        self.requests += 1
        due = self.requests & 0xFFFFFFFF
        while self.words[self.REQUEST] != due:
            if not self.socket.recv(64):
                raise TrainingIsGone
        return self.words[self.COMMAND], self.longs[self.ARGUMENT]

    def answer(self, outcome, value=0):
        self.words[self.OUTCOME] = outcome
        self.longs[self.VALUE] = value
        self.words[self.DONE] = self.requests & 0xFFFFFFFF
        try:
            self.socket.send(b"\1", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            pass  # it has bytes enough that wake it
        except OSError:
            raise TrainingIsGone from None

    def tell(self, outcome, text):
        data = text.encode("utf-8", "replace")
        if len(data) > MOST_TEXT:
            # The begin says where, and the end what was raised.
            data = data[:1000] + b"\n...\n" + data[5 + 1000 - MOST_TEXT:]
        self.bytes[self.window:self.window + len(data)] = data
        self.answer(outcome, len(data))

    def array(self, place, dtype, shape):
        """Of `environments` rows; `place`: the number of the 64-bit word that says where it lies."""
        return self.array_at(self.longs[place], dtype, (self.environments,) + shape)

    def array_at(self, offset, dtype, shape):
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.bytes, dtype, count, offset).reshape(shape)


class Shown:
    """The arrays that environments write to, and what is checked before they do."""

    def __init__(self, memory, leaves, actions):
        self.leaves, self.count = leaves, memory.environments
        is_box = memory.action_type == 0
        if (memory.leaves, memory.elements, is_box) != (len(leaves), actions.elements(), actions.type == "box"):
            raise Refused("its spaces are others than the training was told; was a package installed meanwhile?")
        self.actions = memory.array(6, np.float32 if is_box else np.int64, (memory.elements,))
        self.reward = memory.array(7, np.float64, ())
        self.terminated, self.truncated = memory.array(8, np.uint8, ()), memory.array(9, np.uint8, ())
        self.mask = memory.array(10, np.uint8, (memory.mask_elements,)) if memory.mask_elements else None
        self.failures, self.start_seeds = memory.array(13, np.uint64, ()), memory.array(14, np.uint64, ())
        self.seeds = memory.array(12, np.uint64, ())
        self.metrics = memory.array(11, np.float64, (memory.metrics,))
        self.now, self.final = [], []
        for number, leaf in enumerate(leaves):
            place = 384 + 32 * number
            kind, row_bytes = memory.words[place // 4], memory.longs[place // 8 + 1]
            dtype = np.dtype(TYPES[kind])
            if row_bytes != dtype.itemsize * int(np.prod(leaf.shape, dtype=np.int64)):
                raise Refused("observation leaf '%s' has another size than the training was told" % leaf.name)
            for arrays, offset in ((self.now, place // 8 + 2), (self.final, place // 8 + 3)):
                arrays.append(memory.array_at(memory.longs[offset], dtype, (self.count,) + leaf.shape))

    def write(self, arrays, row, observation):
        """Writes nothing unless all leaves can be written. `row`: of one environment."""
        values = [leaf.check(leaf.get(observation), leaf.shape) for leaf in self.leaves]
        for array, value in zip(arrays, values):
            array[row] = value

    def write_all(self, arrays, observations, rows=slice(None)):
        """Of all environments together; `rows`: those that are written."""
        shapes = [(self.count,) + leaf.shape for leaf in self.leaves]
        values = [leaf.check(leaf.get(observations), shape) for leaf, shape in zip(self.leaves, shapes)]
        for array, value in zip(arrays, values):
            array[rows] = value[rows]

    def write_now(self, row, observation, info):
        """What is seen next, with its mask. Writes nothing unless all can be written."""
        mask = None if self.mask is None else check_mask(mask_of(info), self.mask.shape[1:])
        self.write(self.now, row, observation)
        if mask is not None:
            self.mask[row] = mask

    def end_by_failure(self, row):
        """The step that was lost, as training code without a worker would end it."""
        for now, final in zip(self.now, self.final):
            final[row] = now[row]
        self.reward[row], self.terminated[row], self.truncated[row], self.metrics[row] = 0, 0, 1, np.nan




def derived(seed, failures):
    """derive_seed(seed, SeedPurpose::kEnvGroup, failures) of tandem/base/philox.h."""
    key = (seed ^ 0x7461646E656D2D73) & (1 << 64) - 1
    a, b, c, d = failures & 0xFFFFFFFF, failures >> 32 & 0xFFFFFFFF, 4, 0
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (p1 >> 32) ^ b ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ d ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return b << 32 | a


def python_seed(seed):
    """A seed of 64 bits as one that numpy's and C's generators take, too."""
    return int(seed) & 0x7FFFFFFF



"""For remake-look: runs each operation of a forward pass a second time, with the same inputs, and says of what is kept
for the backward pass which operations wrote it, how long they take, and whether they gave the same bytes again. A
plain PyTorch program: it knows nothing of microdnn."""
import collections
import statistics

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

import packing_networks as networks
from packing_networks import DEVICE, place_of

LEAST = 1 << 20  # bytes of a storage; smaller ones are copied where an operation might change them
RUNS = 3


class Written:
    """What one operation wrote to one storage."""

    def __init__(self, name, ms, same):
        self.name, self.ms, self.same = name, ms, same


def tensors_of(tree):
    return [value for value in _pytree.tree_leaves(tree) if isinstance(value, torch.Tensor)]


def bytes_of(tensor):
    return tensor.untyped_storage().nbytes()


def copy_of(tensor):
    """With a storage of its own and the same strides."""
    storage = tensor.untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def same_bytes(one, other):
    """Of what both show, whatever the numbers are."""
    one, other = (value.contiguous().view(torch.uint8) if value.dim() else value.reshape(1).view(torch.uint8)
                  for value in (one, other))
    return torch.equal(one, other)


def generator_state():
    return torch.cuda.get_rng_state() if DEVICE == "cuda" else torch.get_rng_state()


def set_generator_state(state):
    (torch.cuda.set_rng_state if DEVICE == "cuda" else torch.set_rng_state)(state)


def timed(work):
    if DEVICE != "cuda":
        work()
        return 0.0
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


class Repeating(TorchDispatchMode):
    """Runs operations with large results again. `written`: of each storage, what wrote it, in order."""

    def __init__(self):
        super().__init__()
        self.written = collections.defaultdict(list)

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        given = (arguments, keywords or {})
        changed = self.may_change(function, tensors_of(given))
        before, state = {id(tensor): copy_of(tensor) for tensor in changed}, generator_state()
        results = function(*arguments, **(keywords or {}))
        old = {place_of(tensor) for tensor in tensors_of(given)}
        wrote = [tensor for tensor in tensors_of(results) if bytes_of(tensor) >= LEAST and
                 (function._schema.is_mutable or place_of(tensor) not in old)]
        if wrote:
            self.note(function, wrote, old, *self.again(function, given, before, state, results))
        return results

    @staticmethod
    def may_change(function, tensors):
        """In place, or small: running statistics are written without a word in the schema."""
        found = {id(tensor): tensor for tensor in tensors if tensor.device.type == DEVICE and
                 not isinstance(tensor, torch.nn.Parameter) and
                 (function._schema.is_mutable or bytes_of(tensor) < LEAST)}
        return list(found.values())

    @staticmethod
    def again(function, given, before, state, results):
        """ms, and whether all results had the same bytes each time."""
        after, times, same = generator_state(), [], True
        for _ in range(RUNS):
            copies = {name: copy_of(tensor) for name, tensor in before.items()}
            arguments, keywords = _pytree.tree_map(lambda value: copies.get(id(value), value), given)
            set_generator_state(state)
            repeated = []
            times.append(timed(lambda: repeated.append(function(*arguments, **keywords))))
            same = same and all(same_bytes(one, other) for one, other in
                                zip(tensors_of(results), tensors_of(repeated[0])))
        set_generator_state(after)
        return statistics.median(times), same

    def note(self, function, wrote, old, ms, same):
        name = function._schema.name.split("::")[-1]
        for tensor in wrote:
            place = place_of(tensor)
            if place not in old:
                self.written[place] = []
            # Results that come together are made together: the time is the first one's.
            self.written[place].append(Written(name, ms if tensor is wrote[0] else 0.0, same))


def kept_by(network):
    """Of what one forward pass keeps: rows by what wrote it."""
    own = {place_of(tensor) for tensor in (*network.model.parameters(), *network.model.buffers())}
    kept, repeating = {}, Repeating()

    def keep(tensor):
        place = place_of(tensor)
        if tensor.device.type == DEVICE and place not in own:
            kept[place] = tensor.detach()
        return tensor

    with repeating, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = network.loss()
    rows = collections.defaultdict(lambda: {"tensors": 0, "bytes": 0, "ms": 0.0, "same": 0})
    for place, tensor in kept.items():
        if bytes_of(tensor) < LEAST:
            continue
        chain = repeating.written.get(place, [])
        names = " + ".join(written.name for written in chain) or "input"
        row = rows[names, str(tensor.dtype).removeprefix("torch.")]
        row["tensors"] += 1
        row["bytes"] += bytes_of(tensor)
        row["ms"] += sum(written.ms for written in chain)
        row["same"] += bool(chain) and all(written.same for written in chain)
    del loss
    return [{"writers": names, "type": kind, **row} for (names, kind), row in rows.items()]


def survey(name, batch, side):
    network = networks.Network(name, batch, side)
    network.train(2)  # libraries choose their algorithms
    return kept_by(network)

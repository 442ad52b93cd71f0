"""More programs of memory_worker.py: those whose loop, or whose parameters, belong to a framework. A plain
PyTorch program: it knows nothing of microdnn.

    hf_trainer          transformers.Trainer, with its own optimizer and clipped gradients
    lightning_trainer   PyTorch Lightning, with a validation after each epoch
    accelerator         accelerate, with gradients of two batches before each step
    one_shard           fully_shard (FSDP) with nobody else: NCCL's kernels, but nothing to exchange
    two_shards          the same in two processes with a GPU each
"""
import contextlib
import json
import logging
import os
import sys
import tempfile

import torch

import memory_families as families
import memory_programs as programs
from memory_families import package
from memory_programs import Skipped

EPOCH = 4  # batches
CLIP = 1.0  # the norm of the gradients


class Samples:
    """The training's batch, several times over and on the host: a loader that shuffles finds another batch
    each time. `entry` makes what it yields of an image and its label."""

    def __init__(self, training, times=EPOCH, entry=lambda *pair: pair):
        training.data, training.labels = training.data.cpu(), training.labels.cpu()
        self.data, self.labels, self.times, self.entry = training.data, training.labels, times, entry

    def __len__(self):
        return self.times * len(self.data)

    def __getitem__(self, index):
        index %= len(self.data)
        return self.entry(self.data[index], self.labels[index])


def loader(training, times=EPOCH, shuffle=True):
    return torch.utils.data.DataLoader(Samples(training, times), batch_size=training.batch, shuffle=shuffle,
                                       pin_memory=programs.DEVICE == "cuda")


@contextlib.contextmanager
def installed():
    """Frameworks look for what they need when they begin, too."""
    try:
        yield
    except ImportError as why:
        raise Skipped(f"not all is installed: {why}") from why


@contextlib.contextmanager
def process_state():
    """Of accelerate, which has it once in a process; stock's programs share one."""
    state = package("accelerate.state")

    def reset():
        state.AcceleratorState._reset_state(reset_partial_state=True)  # pylint: disable=protected-access
        state.GradientState._reset_state()  # pylint: disable=protected-access

    reset()
    try:
        yield
    finally:
        reset()


# --- Hugging Face ---------------------------------------------------------------------------------
def hf_arguments(transformers, training, count, folder):
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=count, per_device_train_batch_size=training.batch,
        learning_rate=programs.LEARNING_RATES["adamw"], max_grad_norm=CLIP, bf16=training.mode == "bf16",
        use_cpu=programs.DEVICE == "cpu", save_strategy="no", logging_strategy="no", report_to="none",
        disable_tqdm=True)
    arguments._n_gpu = min(1, arguments.n_gpu)  # pylint: disable=protected-access  # the others are not its own
    return arguments


def hf_trainer(training, count):
    """The losses have all their bits: those of its log are rounded."""
    transformers, losses = package("transformers"), []
    samples = Samples(training, entry=lambda data, labels: {"input_ids": data, "labels": labels})
    with process_state(), installed(), tempfile.TemporaryDirectory() as folder:

        class Trainer(transformers.Trainer):
            def training_step(self, *arguments, **more):
                losses.append(super().training_step(*arguments, **more).detach())
                return losses[-1]

        trainer = Trainer(model=training.model, args=hf_arguments(transformers, training, count, folder),
                          train_dataset=samples)
        trainer.train()
    training.optimizer = trainer.optimizer
    return losses


def accelerator(training, count):
    """In whole epochs."""
    accelerate, losses = package("accelerate"), []
    with process_state(), installed():
        itself = accelerate.Accelerator(mixed_precision="bf16" if training.mode == "bf16" else "no",
                                        gradient_accumulation_steps=2, cpu=programs.DEVICE == "cpu")
        model, optimizer, batches = itself.prepare(training.model, training.optimizer, loader(training))
        while len(losses) < count:
            for data, labels in batches:
                with itself.accumulate(model):
                    loss = torch.nn.functional.cross_entropy(model(data), labels)
                    itself.backward(loss)
                    if itself.sync_gradients:
                        itself.clip_grad_norm_(model.parameters(), CLIP)
                    optimizer.step()
                    optimizer.zero_grad()
                losses.append(loss.detach())
    return losses


# --- Lightning ------------------------------------------------------------------------------------
def lightning_package():
    """It has two names."""
    try:
        return package("lightning.pytorch")
    except Skipped:
        return package("pytorch_lightning")


def lightning_module(lightning, training, losses):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = training.model

        def training_step(self, batch, _):
            loss = training.loss(*batch)
            losses.append(loss.detach())
            return loss

        def validation_step(self, batch, _):
            losses.append(training.loss(*batch))

        def configure_optimizers(self):
            return training.optimizer

    return Module()


def lightning_trainer(training, count):
    """Losses of validations count too. In the end it moves model and optimizer to the host."""
    lightning, losses = lightning_package(), []
    logging.getLogger(lightning.__name__).setLevel(logging.ERROR)
    with installed(), tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="gpu" if programs.DEVICE == "cuda" else "cpu", devices=1, max_steps=count,
            precision="32-true", gradient_clip_val=CLIP, deterministic="warn" if training.WARN_ONLY else True,
            default_root_dir=folder, logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False)
        trainer.fit(lightning_module(lightning, training, losses), loader(training),
                    loader(training, times=1, shuffle=False))
    return losses


# --- Parameters in shards -------------------------------------------------------------------------
def shard(training, ranks):
    """Each block by itself, then the rest. The optimizer is of the shards."""
    fsdp = package("torch.distributed.fsdp")
    mesh = package("torch.distributed.device_mesh").init_device_mesh(programs.DEVICE, (ranks,))
    types = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    policy = fsdp.MixedPrecisionPolicy(**types if training.mode == "bf16" else {})
    training.model.to(memory_format=torch.contiguous_format)
    for part in (*training.model.encoder.layers, training.model):
        fsdp.fully_shard(part, mesh=mesh, mp_policy=policy)
    training.optimizer = programs.optimizer_of(training.arguments["optimizer"], training.model.parameters())


def step(training):
    """The shards' policy has the types of the model, so there is no autocast."""
    loss = torch.nn.functional.cross_entropy(training.model(training.data).float(), training.labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(training.model.parameters(), CLIP)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return loss.detach()


def words(tensor):
    """The sum of its bits, as integers of 32: no order of summation changes it."""
    own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return own.detach().view(torch.int32).sum(dtype=torch.int64).to(programs.DEVICE)


def in_shards(training, count, rank, ranks, meeting):
    """Each rank has other labels. Of other ranks' weights and optimizer only sums come back."""
    training.labels = training.labels.roll(rank)
    with programs.group(rank, ranks, meeting):
        shard(training, ranks)
        losses = [step(training) for _ in range(count)]
        sums = torch.stack(losses).double()
        torch.distributed.all_reduce(sums)
        states = [value for state in training.optimizer.state.values() for value in state.values()]
        total = sum(words(each) for each in (*training.model.parameters(), *states))
        torch.distributed.all_reduce(total)
        return losses + [*sums, total]


def one_shard(training, count):
    with tempfile.TemporaryDirectory() as place:
        return in_shards(training, count, 0, 1, os.path.join(place, "meeting"))


def two_shards(training, count):
    """This process and another one on a second GPU."""
    return programs.beside_another_rank(in_shards, __file__, training, count)


def other_rank(arguments, count, meeting):
    if programs.DEVICE == "cuda":
        torch.cuda.set_device(1)
    in_shards(families.training_of(**arguments), count, 1, 2, meeting)


PROGRAMS = {each.__name__: each for each in (hf_trainer, lightning_trainer, accelerator, one_shard, two_shards)}

if __name__ == "__main__":
    other_rank(*json.loads(sys.argv[1]))

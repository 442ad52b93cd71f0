"""Takes device memory until it is refused, as told line by line (the protocol of memory_worker.py). A
plain program of PyTorch or JAX: it knows nothing of microdnn.

    context (framework)    makes the GPU's context, and runs a kernel of each kind that take needs
    take (step, most)      arrays of `step` bytes, written by a kernel, until one is refused or there are
                           `most` bytes: {"held": bytes, "refused": {type, text} or None}
    end                    drops them
"""
import json
import os
import sys
import traceback


class PyTorch:
    def __init__(self):
        import torch  # pylint: disable=import-outside-toplevel
        self.torch, self.held = torch, []

    def array(self, size):
        made = self.torch.full((size // 4,), 1.0, dtype=self.torch.float32, device="cuda")
        self.torch.cuda.synchronize()
        return made

    def facts(self):
        return {"torch": self.torch.__version__}


class Jax:
    def __init__(self):
        import jax  # pylint: disable=import-outside-toplevel
        self.jax, self.held = jax, []

    def array(self, size):
        return self.jax.numpy.full((size // 4,), 1.0, self.jax.numpy.float32).block_until_ready()

    def facts(self):
        return {"jax": self.jax.__version__}


def is_refusal(error):
    return any(text in str(error).lower() for text in ("out of memory", "resource_exhausted"))


def context(_, command):
    frame = {"pytorch": PyTorch, "jax": Jax}[command["framework"]]()
    frame.held = [frame.array(1 << 20)]
    return frame, frame.facts()


def take(frame, command):
    """A refusal is an answer; anything else that goes wrong is an error."""
    held, refused = 0, None
    while held < command["most"] and not refused:
        try:
            frame.held.append(frame.array(command["step"]))
            held += command["step"]
        except Exception as error:  # pylint: disable=broad-except
            if not is_refusal(error):
                raise
            refused = {"type": type(error).__name__, "text": " ".join(str(error).split())[:300]}
    return frame, {"held": held, "refused": refused}


def end(frame, _):
    if frame:
        frame.held.clear()
    return None, {}


COMMANDS = {each.__name__: each for each in (context, take, end)}


def main():
    # Whatever else prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({})
    frame = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            frame, result = COMMANDS[command["do"]](frame, command)
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())

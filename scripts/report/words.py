"""Numbers and texts for people."""
import html

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10

HOST_TIMES = {
    "library": "the library's own work",
    "planning": "records and plans",
    "making": "making device memory",
    "mapping": "changes of mappings",
    "copies": "waits for copies",
    "work": "waits for operations to end",
    "pinning": "waits for pinned memory",
    "threads": "waits for other threads",
}

KINDS = {
    "weights": "lives always: weights and the like",
    "kept": "activations kept for the backward pass",
    "temporary": "what lives shortly: gradients and the like",
    "workspace": "workspace",
    "ours": "slabs and what is set aside",
}


def three_digits(value):
    if value == 0:
        return "0"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1)
    return f"{value:.{digits}f}"


def size(count):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(count) >= unit:
            return f"{three_digits(count / unit)} {name}"
    return f"{count} bytes"


def ms(value):
    if value is None:
        return "–"
    if abs(value) >= 10000:
        return f"{value / 1000:.1f} s"
    return f"{three_digits(value)} ms" if abs(value) >= 1 or value == 0 else f"{value:.3f} ms"


def escape(text):
    return html.escape(str(text), quote=True)

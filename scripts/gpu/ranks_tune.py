"""`microdnn tune` on one GPU and on two, for check-ranks: the time, and what is in the database."""
import os
import sqlite3
import subprocess
import time

import machine as machines
from processes import Failed

# Types and layouts have no convolution in common, so none is measured twice. Not bf16: cuDNN 9.19 has no gradient of a bias
# in it, so train_cnn stops there.
NETWORK = ("--net", "resnet50", "--batch", "32", "--workspace-limit", "8MiB", "--dtype", "fp32", "--dtype", "tf32",
           "--dtype", "fp16", "--layout", "nchw", "--layout", "nhwc")
SMALL = ("--net", "lenet", "--batch", "4", "--workspace-limit", "16k", "--dtype", "fp32", "--dtype", "tf32")
LEAST_S = 20  # on one GPU: else starting the programs is what is measured


def environment(place):
    """train_cnn's: it needs CUDA's libraries, perhaps those of Python packages."""
    found = machines.find(os.path.abspath(place.options.build))
    if found is None and not place.options.small:
        raise Failed("train_cnn finds no GPU, or not its libraries")
    return found.environment if found else machines.clean_environment()


def contents(path):
    """What was measured and chosen, without the times: problems with their sizes and roles, and requests."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        sizes = file.execute("SELECT key, images, role FROM microdnn_cost JOIN microdnn_problem ON id = problem")
        requests = file.execute("SELECT key, request FROM microdnn_configuration JOIN microdnn_problem ON id = problem")
        return {"sizes": set(sizes), "requests": set(requests)}


def tune(place, devices, surroundings):
    """Seconds, and the contents of the database that was made."""
    path = os.path.join(place.scratch, f"tuned-{devices.replace(',', '-')}.db")
    command = [os.path.join(os.path.abspath(place.options.build), "microdnn"), "tune", "--file", path, "--devices", devices,
               *(SMALL if place.options.small else NETWORK)]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, env=surroundings, text=True, capture_output=True, check=False,
                              timeout=place.limit(240))
    except subprocess.TimeoutExpired as late:
        raise Failed(f"tune --devices {devices} was not done in {late.timeout:.0f} s") from late
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        raise Failed(f"tune --devices {devices}: status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return {"seconds": seconds, "contents": contents(path), "said": done.stdout}


def problems_of(one, two, most, least_s):
    problems, ratio = [], two["seconds"] / one["seconds"]
    if ratio > most:
        problems.append(f"two GPUs take {ratio:.2f} of one's time, at most {most}")
    if one["seconds"] < least_s:
        problems.append(f"one GPU took {one['seconds']:.1f} s, too little to compare; at least {least_s}")
    for what, found in one["contents"].items():
        other = two["contents"][what]
        if not found:
            problems.append(f"no {what} in the database")
        if found != other:
            problems.append(f"{len(found - other)} {what} only with one GPU, {len(other - found)} only with two: "
                            f"{sorted(found ^ other)[:3]}")
    return problems


def row(place):
    surroundings = environment(place)
    one, two = (tune(place, devices, surroundings) for devices in ("0", "0,1"))
    sizes = len(one["contents"]["sizes"])
    return {"notes": [f"{sizes} sizes; one GPU {one['seconds']:.1f} s, two {two['seconds']:.1f} s, ratio "
                      f"{two['seconds'] / one['seconds']:.2f}"],
            "problems": problems_of(one, two, place.options.tune_ratio, 0 if place.options.small else LEAST_S),
            "seconds_one": one["seconds"], "seconds_two": two["seconds"], "said": [one["said"], two["said"]]}

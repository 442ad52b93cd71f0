"""Where convolutions can run on this machine: a real GPU with its libraries, or the simulated."""
import dataclasses
import datetime
import fcntl
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = ("libcudart.so.13", "libcudnn.so.9")
# Host settings that would change what is compared.
UNWANTED = re.compile(r"MICRODNN_|LD_PRELOAD$|NVIDIA_TF32_OVERRIDE$")

# Runs in a child: loading a GPU's libraries here would keep them for good.
PROBE = """
import ctypes, json
def load(name): return ctypes.CDLL(name)
def call(function, *arguments):
    status = function(*arguments)
    if status: raise OSError(f"{function.__name__} returned {status}")
cuda, cudart, cudnn = load("libcuda.so.1"), load("libcudart.so.13"), load("libcudnn.so.9")
call(cuda.cuInit, 0)
count, device, driver, runtime = (ctypes.c_int() for _ in range(4))
call(cuda.cuDeviceGetCount, ctypes.byref(count))
if count.value == 0: raise OSError("no device")
call(cuda.cuDeviceGet, ctypes.byref(device), 0)
name, total = ctypes.create_string_buffer(256), ctypes.c_size_t()
call(cuda.cuDeviceGetName, name, 256, device)
call(cuda.cuDeviceTotalMem_v2, ctypes.byref(total), device)
call(cuda.cuDriverGetVersion, ctypes.byref(driver))
call(cudart.cudaRuntimeGetVersion, ctypes.byref(runtime))
cudnn.cudnnGetVersion.restype = ctypes.c_size_t
print(json.dumps({"device": name.value.decode(), "memory_bytes": total.value,
    "simulated": hasattr(cuda, "sim_api"), "cuda_driver_api": driver.value,
    "cuda_runtime": runtime.value, "cudnn": cudnn.cudnnGetVersion()}))
"""


@dataclasses.dataclass
class Machine:
    """`environment` is complete, for a child process; `facts` say what answered there."""
    environment: dict
    facts: dict

    @property
    def simulated(self):
        return self.facts["simulated"]

    def label(self):
        """What stands over every figure."""
        if self.simulated:
            return f"a simulated GPU, no real one: {self.facts['device']}"
        return self.facts["device"]


def clean_environment():
    """Nothing in it tunes the library, and nothing that an earlier run measured is read."""
    kept = {key: value for key, value in os.environ.items() if not UNWANTED.match(key)}
    return {**kept, "MICRODNN_CACHE_FILE": "none"}


def prepend_library_path(environment, folders):
    old = environment.get("LD_LIBRARY_PATH")
    return {**environment, "LD_LIBRARY_PATH": ":".join([*folders, *([old] if old else [])])}


def probe(environment):
    """Facts of the first device, or None where a library or a device is missing."""
    done = subprocess.run([sys.executable, "-c", PROBE], env=environment, text=True,
                          capture_output=True, check=False, timeout=120)
    return json.loads(done.stdout) if done.returncode == 0 else None


def package_folders():
    """lib folders of the CUDA and cuDNN Python packages that come with PyTorch and JAX."""
    spec = importlib.util.find_spec("nvidia")
    folders = []
    for place in (spec.submodule_search_locations if spec else None) or []:
        for folder, _, files in os.walk(place):
            if any(name in files for name in NEEDED):
                folders.append(folder)
    return sorted(folders)


LEAST_CUDA = 12030  # of cuda.h


def header_folders():
    """Where cuda.h may be: toolkits, what scripts/setup unpacked, Python packages."""
    folders = [os.path.join(os.environ[name], "include") for name in ("CUDA_HOME", "CUDA_PATH")
               if os.environ.get(name)]
    folders += sorted(glob.glob("/usr/local/cuda*/include"), reverse=True)
    folders += [os.path.join(ROOT, "build", "cuda", "include"), "/usr/include"]
    for package, pattern in (("nvidia", "*/include"), ("triton", "backends/nvidia/include")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations if spec else None) or []:
            folders += sorted(glob.glob(os.path.join(place, pattern)))
    return folders


def cuda_version(folder):
    """What cuda.h in there calls itself (13000), or 0."""
    try:
        with open(os.path.join(folder, "cuda.h"), encoding="utf-8", errors="replace") as file:
            match = re.search(r"^#define\s+CUDA_VERSION\s+(\d+)", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


def find_headers():
    best = max(header_folders(), key=cuda_version, default=None)
    if best is None or cuda_version(best) < LEAST_CUDA:
        sys.exit(f"no cuda.h of version {LEAST_CUDA} or later was found")
    return best


def driver_version():
    return ask_driver("driver_version")


def device_name():
    return ask_driver("name")


def ask_driver(what):
    """Of the first device; None if there is none."""
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
                              text=True, capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.split("\n")
    return lines[0].strip() or None if done.returncode == 0 else None


def find_real():
    """The real GPU with libraries from the loader's own path or from Python packages, or None."""
    base = clean_environment()
    for folders in ([], package_folders()):
        environment = prepend_library_path(base, folders) if folders else base
        facts = probe(environment)
        if facts and not facts["simulated"]:
            return Machine(environment, {**facts, "driver": driver_version(), **common_facts()})
    return None


def find_simulated(build, mode):
    """The simulated GPU in `build`; `mode` is "compute" (real arithmetic) or "timing"."""
    base = clean_environment()
    kept = {key: value for key, value in os.environ.items() if key.startswith("MICRODNN_SIM_")}
    environment = prepend_library_path({**base, **kept, "MICRODNN_SIM_MODE": mode},
                                       [os.path.join(build, "sim")])
    facts = probe(environment)
    if not facts or not facts["simulated"]:
        return None
    return Machine(environment, {**facts, "driver": None, **common_facts()})


def find(build, mode="timing"):
    """The real GPU, or with MICRODNN_SIM=1 the simulated one in `build`, in this mode if MICRODNN_SIM_MODE
    says no other; None where there is none."""
    if os.environ.get("MICRODNN_SIM", "") in ("", "0"):
        return find_real()
    return find_simulated(build, os.environ.get("MICRODNN_SIM_MODE", mode))


def common_facts():
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": commit()}


def commit():
    """Of the source tree, or None outside a repository. SOURCE_COMMIT says it of a copied tree."""
    if os.environ.get("SOURCE_COMMIT"):
        return os.environ["SOURCE_COMMIT"]
    try:
        done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"],
                              text=True, capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def collect(path):
    """Adds a finished file to $OUT/0-rows.tar, numbered by when it came, so that several runs in one
    command keep theirs apart: a machine that runs single commands may give few files back, the first
    by their names."""
    folder = os.environ.get("OUT")
    if not folder:
        return
    archive = os.open(os.path.join(folder, "0-rows.tar"), os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(archive, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        mode = "a" if os.fstat(archive).st_size else "w"
        with tarfile.open(fileobj=file, mode=mode) as rows:
            rows.add(path, f"{len(rows.getnames()) + 1}-{os.path.basename(path)}")

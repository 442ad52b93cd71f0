#!/usr/bin/env python3
"""Compares shim/interpose/library_hooks.def with the libraries' own headers, parameter by parameter: pointer,
int or enumeration, 64-bit integer, size, NCCL's id by value.

    test/library_prototypes.py INCLUDE_DIRECTORY
"""
import os
import re
import subprocess
import sys

LIST = """
#define PARAMETERS(...) __VA_ARGS__
#define ARGUMENTS(...)
#define BATCH_HOOK(l, name, p, a, r) EXPORT name (p)
#define TRANSFORM_HOOK(name, p, a) EXPORT name (p)
#define FFT_HOOK TRANSFORM_HOOK
#define COLLECTIVE_HOOK(name, p, a, b) EXPORT name (p)
#define NCCL_HOOK(name, p, a) EXPORT name (p)
#define NCCL_INNER_HOOK NCCL_HOOK
#define NCCL_GROUP_HOOK(name) EXPORT name ()
#include "library_hooks.def"
"""
KINDS = ((r"[*\[]|Handle_t|ncclComm_t|ncclWindow_t|Stream_t|CUstream", "pointer"), (r"(?i)unique_?id", "id"),
         (r"size_t", "size"), (r"int64_t", "long"), (r".", "int"))


def kinds(parameters):
    each = [one.strip() for one in parameters.split(",") if one.strip() not in ("", "void")]
    return [next(kind for pattern, kind in KINDS if re.search(pattern, one)) for one in each]


def read_headers(directory):
    text = ""
    for name in ("cublas_api.h", "cusolverDn.h", "cufft.h", "cufftXt.h", "nccl.h"):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text += re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.S)
    return re.sub(r"\s+", " ", text)


def main():
    hooks = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shim", "interpose")
    listed = subprocess.run(["cpp", "-P", f"-I{hooks}"], input=LIST, text=True, check=True,
                            capture_output=True).stdout
    headers, compared, wrong = read_headers(sys.argv[1]), 0, 0
    for name, parameters in re.findall(r"EXPORT (\w+) \((.*?)\)", re.sub(r"\s+", " ", listed)):
        found = re.search(rf"\b{name} ?\((.*?)\) ?;", headers)
        if not found:
            continue
        compared += 1
        if kinds(parameters) != kinds(found[1]):
            wrong += 1
            print(f"{name}: {kinds(parameters)}, in the header {kinds(found[1])}")
    print(f"{compared} compared, {wrong} wrong")
    sys.exit(wrong > 0 or compared == 0)


if __name__ == "__main__":
    main()

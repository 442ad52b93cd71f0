"""The cases of check-operators: PyTorch's databases of operators and modules (torch.testing._internal), each entry in
each type, on inputs of the databases' own; and batched linear algebra of the sizes that programs use, since the
databases' matrices are too small for most kernels of cuSOLVER and MAGMA."""
import itertools
import sys
import types
import unittest

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def stand_in_for_expecttest():
    """The databases import what PyTorch's tests import; of this package they use nothing."""
    try:
        import expecttest  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        module = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase
        module.assert_expected_inline = None
        sys.modules["expecttest"] = module


stand_in_for_expecttest()
# pylint: disable=wrong-import-position
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402


def tensors_in(value):
    """All tensors of nested lists, tuples and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


class OperatorCase:
    """An operator in one type. A sample is (operands, run): run() gives the results."""

    def __init__(self, info, dtype, device):
        variant = f".{info.variant_test_name}" if info.variant_test_name else ""
        self.name = f"{info.name}{variant} {str(dtype).removeprefix('torch.')}"
        self.info, self.dtype, self.device = info, dtype, device

    def has_backward(self):
        return self.info.supports_autograd and \
            self.dtype in self.info.supported_backward_dtypes(self.device)

    def samples(self):
        for sample in self.info.sample_inputs(self.device, self.dtype,
                                              requires_grad=self.has_backward()):
            yield (sample.input, sample.args, sample.kwargs), \
                lambda sample=sample: self.info(sample.input, *sample.args, **sample.kwargs)


class ModuleCase:
    """A module of torch.nn in one type, in training."""

    def __init__(self, info, dtype, device):
        self.name = f"{info.name} {str(dtype).removeprefix('torch.')}"
        self.info, self.dtype, self.device = info, dtype, device

    def samples(self):
        for sample in self.info.module_inputs_func(self.info, device=self.device, dtype=self.dtype,
                                                   requires_grad=True, training=True):
            if sample.forward_input is None:
                continue
            made, given = sample.constructor_input, sample.forward_input
            module = self.info.module_cls(*made.args, **made.kwargs)
            module.to(self.device).to(self.dtype)
            module.train()
            yield (given.args, given.kwargs, list(module.parameters())), \
                lambda module=module, given=given: module(*given.args, **given.kwargs)


def lu_round_trip(matrix):
    return torch.lu_unpack(*torch.linalg.lu_factor(matrix))


def cholesky_solutions(matrix):
    factor = torch.linalg.cholesky(matrix)
    return torch.cholesky_solve(matrix, factor), torch.cholesky_inverse(factor)


def triangular_solution(matrix):
    return torch.linalg.solve_triangular(matrix.tril(), matrix, upper=False)


# What each is given: any matrix that is far from singular, or one that is symmetric and positive as well.
LINEAR_ALGEBRA = {
    "any": {"lu": torch.linalg.lu, "lu_unpack": lu_round_trip, "inv": torch.linalg.inv, "det": torch.linalg.det,
            "solve": lambda matrix: torch.linalg.solve(matrix, matrix.mT), "qr": torch.linalg.qr,
            "triangular": triangular_solution, "eig": torch.linalg.eig, "svd": torch.linalg.svdvals,
            "lstsq": lambda matrix: torch.linalg.lstsq(matrix, matrix.mT).solution,
            "matrix_exp": torch.linalg.matrix_exp},
    "positive": {"cholesky": cholesky_solutions, "eigh": torch.linalg.eigvalsh,
                 "ldl": torch.linalg.ldl_factor}}
SHAPES = ((4, 4), (300, 8, 8), (40, 32, 32), (6, 200, 200), (2, 3, 50, 50), (600, 600))
LINEAR_ALGEBRA_LIBRARIES = ("default", "cusolver", "magma")


class LinearAlgebraCase:
    """A function of linear algebra, by one of the libraries that PyTorch has for it. A sample is a shape."""

    def __init__(self, function, kind, library, dtype, device):
        self.name = f"matrices.{function} {library} {str(dtype).removeprefix('torch.')}"
        self.run = LINEAR_ALGEBRA[kind][function]
        self.kind, self.backend, self.dtype, self.device = kind, library, dtype, device

    def matrix(self, shape):
        values = torch.randn(shape, dtype=self.dtype, device=self.device) / shape[-1]
        if self.kind == "positive":
            values = values @ values.mT
        return (values + torch.eye(shape[-1], dtype=self.dtype, device=self.device)).requires_grad_()

    def samples(self):
        torch.backends.cuda.preferred_linalg_library(self.backend)
        try:
            for shape in SHAPES:
                matrix = self.matrix(shape)
                yield (matrix,), lambda matrix=matrix: self.run(matrix)
        finally:
            torch.backends.cuda.preferred_linalg_library("default")


def all_cases(device):
    """By name, in the order of the databases."""
    cases = {}
    for info, dtype in itertools.product(op_db, DTYPES):
        if dtype in info.supported_dtypes(device):
            case = OperatorCase(info, dtype, device)
            cases[case.name] = case
    for info, dtype in itertools.product(module_db, DTYPES):
        if dtype in info.supported_dtypes(device):
            case = ModuleCase(info, dtype, device)
            cases[case.name] = case
    for kind, functions in LINEAR_ALGEBRA.items():
        for function, library, dtype in itertools.product(functions, LINEAR_ALGEBRA_LIBRARIES,
                                                          (torch.float32, torch.float64)):
            case = LinearAlgebraCase(function, kind, library, dtype, device)
            cases[case.name] = case
    return cases

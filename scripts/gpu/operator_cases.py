"""The cases of check-operators: PyTorch's databases of operators and modules
(torch.testing._internal), each entry in each type, on inputs of the databases' own."""
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
    return cases

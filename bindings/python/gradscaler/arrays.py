# SPDX-License-Identifier: Apache-2.0
"""What counts as an array, and which view of a PyTorch gradient the core gets. No array library is imported: without
it, there are no arrays of it."""

from __future__ import annotations

import sys
from typing import Any

from .dtensors import groups_of, is_dtensor


def torch_tensor_type() -> Any:
    """`torch.Tensor`; None if the program has not imported torch."""
    return _class_of(sys.modules.get("torch"), "Tensor")


def torch_parameter_type() -> Any:
    """`torch.nn.Parameter`; None if the program has not imported torch."""
    return _class_of(getattr(sys.modules.get("torch"), "nn", None), "Parameter")


def _class_of(module: Any, name: str) -> Any:
    """The class, or None if the module lacks it: another thread may be importing it, and tests put stubs there."""
    found = getattr(module, name, None)
    return found if isinstance(found, type) else None


def is_numpy(value: object) -> bool:
    """Whether `value` is a NumPy array or a NumPy scalar."""
    numpy = sys.modules.get("numpy")
    array, scalar = _class_of(numpy, "ndarray"), _class_of(numpy, "generic")
    return array is not None and scalar is not None and isinstance(value, (array, scalar))


def is_tensor(value: object) -> bool:
    """Whether `value` looks like the array or tensor of some library."""
    if isinstance(value, type):  # a class has the attributes of its instances
        return False
    return hasattr(value, "__dlpack__") or (hasattr(value, "shape") and hasattr(value, "dtype"))


def is_buffer(value: Any) -> bool:
    """Whether `value` has the buffer protocol, as bytes, array.array and memoryview do."""
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def expose(gradients: list[Any]) -> list[Any]:
    """Replaces, in the list, PyTorch gradients that the core cannot borrow themselves by views of their elements.

    A sparse gradient becomes its values, a DTensor this rank's part. A subclass is detached: it refuses DLPack if it
    requires a gradient. Returns the process groups of the ranks among which DTensors are split, each once."""
    groups: list[Any] = []
    tensor_type = torch_tensor_type()
    if tensor_type is not None:
        for index, gradient in enumerate(gradients):
            if gradient is None or (type(gradient) is tensor_type and not gradient.is_sparse):
                continue
            if isinstance(gradient, tensor_type):
                if is_dtensor(gradient):
                    groups.extend(group for group in groups_of(gradient) if group not in groups)
                    gradient = gradient.to_local()
                gradient = gradient.detach()
                gradients[index] = gradient._values() if gradient.is_sparse else gradient
    return groups


def note_written(arrays: list[Any]) -> None:
    """Tells PyTorch's autograd that these have been changed in place: a backward pass that needs what they held before
    then raises, as after PyTorch's own functions, instead of computing with what they hold now."""
    tensor_type = torch_tensor_type()
    if not arrays or tensor_type is None:
        return
    tensors = [array for array in arrays if isinstance(array, tensor_type)]
    increment = _increment_version()
    if increment is None:
        return
    try:
        increment(tensors)
    except TypeError:  # older versions take one tensor
        for tensor in tensors:
            increment(tensor)


def _increment_version() -> Any:
    """PyTorch's function; None where another thread is importing torch, or it is older than 2.1."""
    graph = getattr(getattr(sys.modules["torch"], "autograd", None), "graph", None)
    return getattr(graph, "increment_version", None)

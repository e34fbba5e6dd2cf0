# SPDX-License-Identifier: Apache-2.0
"""The part of the C API that the comparison calls through ctypes. The structs repeat those of the public headers."""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64
from ctypes import c_void_p
from pathlib import Path

KDL_CPU = 1
KDL_FLOAT = 2
KDL_BFLOAT = 4


class Device(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class ParamGroup(ctypes.Structure):
    _fields_ = [
        ("params", POINTER(c_void_p)),
        ("count", c_size_t),
        ("lr", c_double),
        ("weight_decay", c_double),
        ("momentum", c_double),
        ("dampening", c_double),
        ("nesterov", c_bool),
        ("beta1", c_double),
        ("beta2", c_double),
        ("eps", c_double),
        ("reserved", c_uint64 * 8),
    ]


class StepArgs(ctypes.Structure):
    _fields_ = [
        ("closure", c_void_p),
        ("closure_ctx", c_void_p),
        ("extra", c_void_p),
        ("clip_norm", c_double),
        ("clip_norm_type", c_double),
        ("reserved", c_uint64 * 8),
    ]


class StepResult(ctypes.Structure):
    _fields_ = [
        ("outcome", c_int32),
        ("has_value", c_bool),
        ("value", c_double),
        ("grad_norm", c_double),
        ("max_abs", c_double),
        ("reserved", c_uint64 * 8),
    ]


FLOAT32 = DataType(KDL_FLOAT, 32, 1)

# Result and argument types: by default, ctypes takes results for int and checks no argument.
SIGNATURES = {
    "gsc_version": (c_char_p, []),
    "gsc_isa": (c_char_p, []),
    "gsc_last_error": (c_char_p, []),
    "gsc_set_num_threads": (None, [c_int32]),
    "gsc_scaler_destroy": (None, [c_void_p]),
    "gsc_scaler_update": (ctypes.c_int, [c_void_p]),
    "gsc_scaler_step": (ctypes.c_int, [c_void_p, c_void_p, POINTER(StepArgs), POINTER(StepResult)]),
    "gsc_tensor_create": (ctypes.c_int, [DataType, c_int32, POINTER(c_int64), POINTER(c_void_p)]),
    "gsc_tensor_set_requires_grad": (ctypes.c_int, [c_void_p, c_bool]),
    "gsc_tensor_data": (POINTER(DLTensor), [c_void_p]),
    "gsc_tensor_grad": (POINTER(DLTensor), [c_void_p]),
    "gsc_tensor_free": (None, [c_void_p]),
    "gsc_tape_param": (c_void_p, [c_void_p, c_void_p]),
    "gsc_tape_backward": (ctypes.c_int, [c_void_p, c_void_p]),
    "gsc_tape_free": (None, [c_void_p]),
    "gsc_sum": (c_void_p, [c_void_p]),
    "gsc_param_group_default_adam": (ParamGroup, [POINTER(c_void_p), c_size_t, c_double]),
    "gsc_optim_create_adamw": (ctypes.c_int, [POINTER(ParamGroup), c_size_t, POINTER(c_void_p)]),
    "gsc_optim_optimizer": (c_void_p, [c_void_p]),
    "gsc_optim_state": (POINTER(DLTensor), [c_void_p, c_size_t, c_char_p]),
    "gsc_optim_free": (None, [c_void_p]),
}


class Library:
    """libgradscaler and libgradscaler-train; functions are looked up by name: library.gsc_version()."""

    def __init__(self, folder: Path) -> None:
        ctypes.CDLL(str(folder / "libgradscaler.so"), mode=ctypes.RTLD_GLOBAL)
        self._functions = ctypes.CDLL(str(folder / "libgradscaler-train.so"))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name: str):
        return getattr(self._functions, name)

    def check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self.gsc_last_error().decode())

    def create(self, name: str, *arguments) -> c_void_p:
        """Calls a function that creates something and returns it through its last parameter; returns that."""
        made = c_void_p()
        self.check(getattr(self, name)(*arguments, byref(made)))
        return made

# SPDX-License-Identifier: Apache-2.0
"""Objects whose only method is `__dlpack__`, with capsules made by hand, so that a test can set any field."""

import ctypes

CPU, CUDA = 1, 2
READ_ONLY, COPIED = 1, 2
FLOAT, COMPLEX = 2, 5


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, Destructor]


class Old:
    """float32 [2, count/2] of numbers in `values`; `exports`: capsules that are alive."""

    def __init__(self, values, **fields):
        self.values = (ctypes.c_float * len(values))(*values)
        self.shape = (ctypes.c_int64 * 2)(2, len(values) // 2)
        self.fields = fields
        self.exports = 0
        self.kept = []

    def tensor(self):
        tensor = DLTensor(ctypes.addressof(self.values), CPU, 0, 2, FLOAT, 32, 1, self.shape, None, 0)
        for name, value in self.fields.items():
            setattr(tensor, name, value)
        return tensor

    def capsule(self, managed, name):
        destructor = Destructor(self.forget)
        self.kept.append((managed, name, destructor))
        self.exports += 1
        return new_capsule(ctypes.addressof(managed), name, destructor)

    def forget(self, _capsule):
        self.exports -= 1

    def __dlpack__(self, stream=None):
        return self.capsule(Managed(self.tensor()), b"dltensor")


class New(Old):
    """The same with a versioned capsule; `asked`: the arguments of the last call."""

    def __init__(self, values, version=(1, 0), flags=0, **fields):
        super().__init__(values, **fields)
        self.version = version
        self.flags = flags
        self.asked = []

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append((max_version, copy))
        managed = ManagedVersioned(*self.version, None, None, self.flags, self.tensor())
        return self.capsule(managed, b"dltensor_versioned")

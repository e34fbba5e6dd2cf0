# SPDX-License-Identifier: Apache-2.0
"""Where our GradScaler deliberately differs from PyTorch's. docs/python-differences.md tells why.

An outcome is the name of the exception or the text of what was returned ("None" where nothing was)."""

from __future__ import annotations

from typing import Dict, NamedTuple


class Difference(NamedTuple):
    pytorch: str
    here: str


# Met by the random sequences, which go on: a refused call changes nothing, and where one side accepts a new scale that
# the other refuses, the next call is one that gives both the same.
IN_SEQUENCES: Dict[str, Difference] = {
    "step-without-gradients": Difference("AssertionError", "None"),
    "update-without-gradients": Difference("AssertionError", "None"),
    "update-without-checks": Difference("AssertionError", "RuntimeError"),
    "update-range": Difference("None", "ValueError"),
    "update-int": Difference("AttributeError", "None"),
    "update-array": Difference("AssertionError", "ValueError"),
    "update-array-of-one": Difference("RuntimeError", "None"),
    "scale-of-number": Difference("ValueError", "None"),
    "constructor-error": Difference("AssertionError", "ValueError"),
    "setter-range": Difference("None", "ValueError"),
}

# Shown one by one in test_differences.py.
ALONE: Dict[str, Difference] = {
    "default-device": Difference("cuda", "cpu"),
    "device-not-served": Difference("False", "DeviceError"),
    "number-as-device": Difference("True", "TypeError"),
    "constructor-range": Difference("None", "ValueError"),
    "disabled-by-none": Difference("None", "False"),
    "scale-first": Difference("AssertionError", "None"),
    "scale-of-string": Difference("None", "ValueError"),
    "overlapping-gradient": Difference("RuntimeError", "ValueError"),
    "not-an-optimizer": Difference("AttributeError", "TypeError"),
    "float32-scale": Difference("0.1", "0.10000000149011612"),
    "interval-lowered": Difference("65536.0", "131072.0"),
    "scale-floor": Difference("True", "False"),
    "unscale-overflow": Difference("False", "True"),
    "float64-reciprocal": Difference("False", "True"),
    "empty-gradients": Difference("1", "0"),
    "shared-gradient": Difference("0.25", "0.5"),
    "disabled-getters": Difference("AttributeError", "2.0"),
    "held-gradients": Difference("True", "False"),
    "late-gradient": Difference("-16.0 []", "-16.0 ['RuntimeWarning']"),
    "nan-bits": Difference("2", "1"),
    "state-dict-entries": Difference("False", "True"),
    "positional-closure": Difference("0.5", "RuntimeError"),
    "list-of-arrays": Difference("AttributeError", "0.5"),
    "disabled-checks": Difference("None", "ValueError"),
    "load-range": Difference("None", "ValueError"),
    "load-half-done": Difference("3.0", "2.0"),
    "call-inside-step": Difference("None", "RuntimeError"),
    "load-mid-iteration": Difference("None", "RuntimeError"),
    "pickle-mid-iteration": Difference("AssertionError", "RuntimeError"),
    "fused-overflow": Difference("1", "0"),
    "constructor-types": Difference("True 2.5", "TypeError"),
    "scale-of-mapping": Difference("map", "ValueError"),
    "scale-of-named-tuple": Difference("TypeError", "Pair"),
    "scale-of-numpy": Difference("ValueError", "4.0"),
    "update-types": Difference("1.0 2.0", "TypeError"),
    "update-requires-grad": Difference("AssertionError", "ValueError"),
    "fused-float16": Difference("True", "ValueError"),
    "complex-beside-float32": Difference("1.0", "4.0"),
    "pickle-after-refusal": Difference("AssertionError", "65536.0"),
    "empty-sparse-gradient": Difference("1", "0"),
    "isinstance": Difference("True", "False"),
    "private-names": Difference("None", "AttributeError"),
    "private-scale": Difference("None 4.0", "4.0 4.0"),
    "private-override": Difference("True", "TypeError"),
    "replaced-after-failure": Difference("-16.0", "RuntimeError"),
    "traced-scale": Difference("8.0 8.0 TraceError", "4.0 4.0 4.0"),
    "preset-grad-scale": Difference("None", "4.0"),
}

DIFFERENCES: Dict[str, Difference] = {**IN_SEQUENCES, **ALONE}

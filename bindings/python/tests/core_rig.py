# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests that call the extension's Scaler and Handle directly."""

import traceback

import numpy as np

from gradscaler import _core

READY, UNSCALED, STEPPED = range(3)
OVERFLOW, BACKOFF, GROWTH, AT_MIN_SCALE = range(4)
FLT_MIN, FLT_MAX = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


def make(**changes):
    options = dict(
        init_scale=8.0,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
        min_scale=None,
        max_scale=None,
        hysteresis=1,
        hysteresis_until_growth=False,
        max_consecutive_skips=0,
        skip_window=0,
        max_skip_share=0.0,
        allow_fp16_grads=False,
        strict=False,
        allreduce_max=None,
        allreduce_sum=None,
        allreduce_max64=None,
        observer=None,
    )
    options.update(changes)
    return _core.Scaler(**options)


def grads(*values):
    return [np.array(value, np.float32) for value in values]


def step(scaler, handle, arrays, function=lambda: None, scaled=None, clip=0.0, norm_type=0.0, name=None):
    return scaler.step(handle, arrays, name, function, scaled, clip, norm_type)


class Torn(Exception):
    pass


def raise_torn(*args):
    raise Torn("mine")


def frames(info):
    return [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]

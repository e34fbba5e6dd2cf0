#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py BUILD: files of the Python package safetensors and of libgradscaler-train hold the same bits.

Files that Python wrote are read and written again by exchange.c, and a run of the command leaves files of its own;
what they hold must be what Python finds in them. Both write equal content as equal files, byte by byte.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

DTYPES = [
    numpy.bool_, numpy.uint8, numpy.int8, numpy.int16, numpy.uint16, numpy.float16, ml_dtypes.bfloat16, numpy.int32,
    numpy.uint32, numpy.float32, numpy.complex64, numpy.float64, numpy.int64, numpy.uint64,
]  # fmt: skip
SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (2, 3), (1, 5, 1), (2, 1, 3, 2), (1,) * 12, (1000,)]
NAMES = ["", " ", "0.weight", 'größe "0"\\/', "名前", "🙂", "a\tb\nc", "\x1b\x7f\x01", "__metadata", "x" * 1000]
FILES = 50  # random ones


def random_array(choose, dtype, shape):
    """Any bits at all: NaNs with payloads, subnormals, negative zeros."""
    count = int(numpy.prod(shape))
    if dtype is numpy.bool_:
        return numpy.array(choose.choices([False, True], k=count), dtype).reshape(shape)
    return numpy.frombuffer(choose.randbytes(count * numpy.dtype(dtype).itemsize), dtype).reshape(shape)


def random_file(choose):
    names = NAMES + [f"layer.{i}" for i in range(20)]
    tensors = {
        name: random_array(choose, choose.choice(DTYPES), choose.choice(SHAPES))
        for name in choose.sample(names, choose.randint(0, len(names)))
    }
    metadata = {key: choose.choice(NAMES) for key in choose.sample(NAMES, choose.randint(0, 3))}
    return tensors, metadata


def every_dtype_and_shape(choose):
    tensors = {
        f"{numpy.dtype(dtype).name}{list(shape)}": random_array(choose, dtype, shape)
        for dtype in DTYPES
        for shape in SHAPES
    }
    return tensors, {"format": "pt"}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_content(path, tensors, metadata):
    found = load_file(path)
    assert found.keys() == tensors.keys(), (path, found.keys() ^ tensors.keys())
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, (path, name)
        assert found[name].tobytes() == tensor.tobytes(), (path, name)
    with safe_open(path, "numpy") as file:
        assert (file.metadata() or {}) == metadata, (path, file.metadata(), metadata)


def has_one_spelling(tensors, metadata):
    """Python shuffles several entries of metadata, and spells \\u001b where others spell \\u001B."""
    texts = [*tensors, *metadata, *metadata.values()]
    return len(metadata) <= 1 and not any("\x1b" in text for text in texts)


def check_files_of_python(exchange, folder):
    choose = random.Random(5)
    contents = [({}, {}), every_dtype_and_shape(choose)] + [random_file(choose) for _ in range(FILES)]
    paths = [(os.path.join(folder, f"{i}.python"), os.path.join(folder, f"{i}.ours")) for i in range(len(contents))]
    for (theirs, _), (tensors, metadata) in zip(paths, contents):
        save_file(tensors, theirs, metadata=metadata or None)
    subprocess.run([exchange, *(path for pair in paths for path in pair)], check=True)
    equal = 0
    for (theirs, ours), (tensors, metadata) in zip(paths, contents):
        check_content(ours, tensors, metadata)
        if has_one_spelling(tensors, metadata):
            assert read(theirs) == read(ours), theirs
            equal += 1
    assert equal > 10, equal
    print(f"{len(contents)} files of Python, read and written again: the same; {equal} of them byte by byte")


def check_files_of_the_command(command, folder):
    """Python, writing again what it read, gives the same bytes."""
    run, again = os.path.join(folder, "run"), os.path.join(folder, "again")
    options = ["--data", "synthetic", "--optimizer", "adam", "--steps", "3", "--out", run]
    subprocess.run([command, "train", *options], check=True, stdout=subprocess.DEVNULL)
    for name in "model.safetensors", "optimizer.safetensors":
        path = os.path.join(run, name)
        with safe_open(path, "numpy") as file:
            metadata = file.metadata()
        tensors = load_file(path)
        assert len(tensors) >= 4 and len(metadata) == 1, (tensors.keys(), metadata)
        save_file(tensors, again, metadata=metadata)
        assert read(path) == read(again), name
    steps = [int(tensor) for name, tensor in tensors.items() if name.endswith(".step")]
    with open(os.path.join(run, "scaler.json"), encoding="utf-8") as file:
        assert {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"} <= set(json.load(file))
    assert steps == [3] * 4, steps
    print("the files of a run: read and written again by Python, the same byte by byte")


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        check_files_of_python(os.path.join(build, "tests", "safetensors", "safetensors_exchange"), folder)
        check_files_of_the_command(os.path.join(build, "cli", "gradscaler"), folder)


main()

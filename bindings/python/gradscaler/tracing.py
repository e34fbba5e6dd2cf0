# SPDX-License-Identifier: Apache-2.0
"""Values inside functions that JAX compiles: a Python number that meets one is compiled in. JAX is not imported."""

from __future__ import annotations

from typing import Any

_COMPILED = "DynamicJaxprTracer"  # JAX's tracer of jit, scan, cond, eval_shape


def is_compiled(value: Any) -> bool:
    """Whether `value` stands for a number that is known only when a function compiled by JAX runs.

    The tracers of grad (`primal`) and vmap (`val`) wrap such a value inside `jax.jit`, and an array outside of it."""
    while _is_tracer(value):
        if type(value).__name__ == _COMPILED:
            return True
        value = getattr(value, "primal", getattr(value, "val", None))
    return False


def _is_tracer(value: Any) -> bool:
    return any(cls.__name__ == "Tracer" and cls.__module__.partition(".")[0] == "jax" for cls in type(value).__mro__)

# SPDX-License-Identifier: Apache-2.0
"""scale() inside a function that JAX compiles: refused, since the scale would be compiled in."""

import numpy as np
import pytest
from conftest import f32

from gradscaler import GradScaler


def tracer(kind, **wrapped):
    """A value as JAX hands it to the functions that it traces. Without JAX: its class, module and attributes."""
    base = type("Tracer", (), {"__module__": "jax._src.core", "shape": (), "dtype": "float32"})
    return type(kind, (base,), {"__mul__": lambda self, factor: ("product", factor), **wrapped})()


COMPILED = tracer("DynamicJaxprTracer", val=f32(1.0))  # jit


# trial T5
@pytest.mark.parametrize(
    "value",
    [
        COMPILED,
        tracer("LinearizeTracer", primal=COMPILED),  # jit(grad)
        tracer("BatchTracer", val=tracer("JVPTracer", primal=COMPILED)),  # jit(vmap(grad))
    ],
)
def test_a_value_that_jax_compiles_is_refused(value):
    scaler = GradScaler(init_scale=4.0)
    for outputs in (value, [f32(1.0), (value,)]):
        with pytest.raises(TypeError, match=r"JAX is compiling .* pass get_scale\(\) .* or call scale outside"):
            scaler.scale(outputs)
    assert GradScaler(enabled=False).scale(value) is value


@pytest.mark.parametrize(
    "value", [tracer("JVPTracer", primal=f32(1.0)), tracer("BatchTracer", val=tracer("JVPTracer", primal=f32(1.0)))]
)
def test_grad_and_vmap_alone_compile_nothing(value):
    assert GradScaler(init_scale=4.0).scale(value) == ("product", 4.0)


def test_other_classes_of_this_name_are_tensors():
    class Tracer:
        shape, dtype = (), "float32"

        def __mul__(self, factor):
            return factor

    assert GradScaler(init_scale=4.0).scale(type("DynamicJaxprTracer", (Tracer,), {})()) == 4.0


def test_with_jax():
    jax = pytest.importorskip("jax")
    scaler = GradScaler(init_scale=4.0)

    def loss(weights):
        return scaler.scale((weights * 3.0).sum())

    weights = np.ones(2, np.float32)
    assert jax.grad(loss)(weights).tolist() == [12.0, 12.0]
    assert jax.vmap(jax.grad(loss))(weights.reshape(1, 2)).tolist() == [[12.0, 12.0]]
    for transformed in (
        jax.jit(loss),
        jax.jit(jax.grad(loss)),
        jax.grad(jax.jit(loss)),
        jax.grad(jax.checkpoint(loss)),
    ):
        with pytest.raises(TypeError, match="JAX is compiling"):
            transformed(weights)
    assert scaler.scale(jax.jit(lambda w: w.sum())(weights)) == 8.0

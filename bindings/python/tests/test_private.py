# SPDX-License-Identifier: Apache-2.0
"""Private names of PyTorch's scaler: what is assigned or overridden has an effect, or is refused."""

import copy
import pickle

import pytest
from conftest import f32

from gradscaler import GradScaler

FUNCTIONS = ("_unscale_grads_", "_maybe_opt_step", "_check_inf_per_device", "_found_inf_per_device")


def test_the_scale_under_its_private_names():
    """As accelerate reads it."""
    scaler = GradScaler(init_scale=4.0, growth_interval=1)
    assert float(scaler._scale) == float(scaler._get_scale_async()) == 4.0
    scaler.step([f32(1.0)])
    scaler.update()
    assert float(scaler._scale) == 8.0
    disabled = GradScaler(enabled=False)
    assert disabled._scale is None
    assert disabled._get_scale_async() is None
    with pytest.raises(AttributeError, match=r"_scale cannot be set here; call update\(new_scale\)"):
        scaler._scale = 2.0
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize(
    "name", ["_growth_tracker", "_growth_interval", "_init_scale", "_per_optimizer_states", *FUNCTIONS]
)
def test_names_that_are_not_here(name):
    scaler = GradScaler()
    assert not hasattr(scaler, name)
    for use in (lambda: getattr(scaler, name), lambda: setattr(scaler, name, 3)):
        with pytest.raises(AttributeError, match=f"^GradScaler has no {name}, a private name of PyTorch's; "):
            use()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_would_never_be_called(name):
    with pytest.raises(TypeError, match=f"^Own defines {name}, .* never called here; "):
        type("Own", (GradScaler,), {name: lambda self, *arguments: None})
    mixin = type("Mixin", (), {name: lambda self, *arguments: None})
    with pytest.raises(TypeError, match=name):
        type("Own", (mixin, GradScaler), {})


class Own(GradScaler):
    _growth_tracker = "mine"  # an attribute of a subclass is its own

    def unscale_(self, optimizer):
        super().unscale_(optimizer)


def test_subclasses_are_copied_and_pickled_as_before():
    scaler = Own(init_scale=4.0)
    scaler.step([f32(1.0)])
    scaler.update()
    for clone in (copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        assert (clone._growth_tracker, clone.get_scale()) == ("mine", 4.0)

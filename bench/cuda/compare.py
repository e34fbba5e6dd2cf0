# SPDX-License-Identifier: Apache-2.0
"""compare.py BUILD [--quick]: the same work in PyTorch and in the CUDA module built in BUILD, on the same GPU and stream.
NOT YET RUN ON A GPU.

Each row: seconds of one iteration, the median over the rounds, of PyTorch and of ours, and their ratio. A round is timed
with events around many iterations, so what the host cannot enqueue fast enough counts, too."""

import argparse
import ctypes
import statistics
import sys
from collections.abc import Callable
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "torch"))
from binding import FLOAT32, Device, DLTensor, StepArgs, StepResult  # noqa: E402

KDL_CUDA = 2
SCALE = 65536.0
LR, WEIGHT_DECAY = 1e-3, 0.01
TOLERANCE = 1e-5  # relative
ROUNDS, QUICK_ROUNDS = 15, 3
ITERATIONS = 20


class ScalerOptions(ctypes.Structure):
    _fields_ = [
        ("device", Device),
        ("backend", c_void_p),
        ("init_scale", c_double),
        ("growth_factor", c_double),
        ("backoff_factor", c_double),
        ("growth_interval", c_int64),
        ("enabled", c_bool),
        ("min_scale", c_double),
        ("max_scale", c_double),
        ("hysteresis", c_int32),
        ("max_consecutive_skips", c_int64),
        ("allow_fp16_grads", c_bool),
        ("comm", c_void_p),
        ("observer", c_void_p),
        ("observer_ctx", c_void_p),
        ("strict", c_bool),
        ("hysteresis_until_growth", c_bool),
        ("skip_window", c_int32),
        ("max_skip_share", c_double),
        ("reserved", c_uint64 * 6),
    ]


class ParamGroup(ctypes.Structure):
    _fields_ = [
        ("params", POINTER(POINTER(DLTensor))),
        ("grads", POINTER(POINTER(DLTensor))),
        ("names", POINTER(c_char_p)),
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


SIGNATURES = {
    "gsc_cuda_backend": (c_void_p, []),
    "gsc_cuda_param_group_default_adam": (
        ParamGroup,
        [POINTER(POINTER(DLTensor)), POINTER(POINTER(DLTensor)), c_size_t, c_double],
    ),
    "gsc_cuda_optim_create_adamw": (c_int, [POINTER(ParamGroup), c_size_t, POINTER(c_void_p)]),
    "gsc_cuda_optim_optimizer": (c_void_p, [c_void_p]),
    "gsc_cuda_optim_set_stream": (c_int, [c_void_p, c_void_p]),
    "gsc_cuda_optim_free": (None, [c_void_p]),
}
CORE_SIGNATURES = {
    "gsc_last_error": (c_char_p, []),
    "gsc_version": (c_char_p, []),
    "gsc_scaler_options_default": (ScalerOptions, []),
    "gsc_scaler_create": (c_int, [POINTER(ScalerOptions), POINTER(c_void_p)]),
    "gsc_scaler_destroy": (None, [c_void_p]),
    "gsc_scaler_set_stream": (c_int, [c_void_p, Device, c_void_p]),
    "gsc_scaler_unscale": (c_int, [c_void_p, c_void_p]),
    "gsc_scaler_step": (c_int, [c_void_p, c_void_p, POINTER(StepArgs), POINTER(StepResult)]),
    "gsc_scaler_update": (c_int, [c_void_p]),
}


class Library:
    """libgradscaler and libgradscaler-cuda."""

    def __init__(self, build: Path) -> None:
        self._core = ctypes.CDLL(str(build / "src" / "libgradscaler.so"), mode=ctypes.RTLD_GLOBAL)
        self._cuda = ctypes.CDLL(str(build / "src" / "cuda" / "libgradscaler-cuda.so"))
        for library, signatures in ((self._core, CORE_SIGNATURES), (self._cuda, SIGNATURES)):
            for name, (result, arguments) in signatures.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)

    def check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self.gsc_last_error().decode())


def describe(tensor: torch.Tensor) -> DLTensor:
    return DLTensor(
        data=tensor.data_ptr(),
        device=Device(KDL_CUDA, tensor.device.index),
        ndim=1,
        dtype=FLOAT32,
        shape=(c_int64 * 1)(tensor.numel()),
    )


def pointers(descriptions: list[DLTensor]) -> "ctypes.Array":
    return (POINTER(DLTensor) * len(descriptions))(*map(POINTER(DLTensor), descriptions))


class OurSide:
    """A scaler and the module's AdamW, on tensors of PyTorch."""

    def __init__(self, library: Library, params: list[torch.Tensor], grads: list[torch.Tensor], static: bool) -> None:
        self._library = library
        stream = torch.cuda.current_stream().cuda_stream
        self._kept = [list(map(describe, params)), list(map(describe, grads))]
        self._lists = [pointers(kept) for kept in self._kept]
        group = library.gsc_cuda_param_group_default_adam(*self._lists, len(params), LR)
        group.weight_decay = WEIGHT_DECAY
        self._optim = c_void_p()
        library.check(library.gsc_cuda_optim_create_adamw(byref(group), 1, byref(self._optim)))
        library.check(library.gsc_cuda_optim_set_stream(self._optim, stream))
        self._optimizer = library.gsc_cuda_optim_optimizer(self._optim)
        options = library.gsc_scaler_options_default()
        device = Device(KDL_CUDA, params[0].device.index)
        options.device = device
        options.backend = library.gsc_cuda_backend()
        if static:
            options.min_scale = options.max_scale = options.init_scale
        self._scaler = c_void_p()
        library.check(library.gsc_scaler_create(byref(options), byref(self._scaler)))
        library.check(library.gsc_scaler_set_stream(self._scaler, device, stream))

    def unscale(self) -> None:
        library = self._library
        library.check(library.gsc_scaler_unscale(self._scaler, self._optimizer))
        library.check(library.gsc_scaler_update(self._scaler))

    def step(self) -> None:
        library = self._library
        library.check(library.gsc_scaler_step(self._scaler, self._optimizer, None, None))
        library.check(library.gsc_scaler_update(self._scaler))

    def free(self) -> None:
        self._library.gsc_scaler_destroy(self._scaler)
        self._library.gsc_cuda_optim_free(self._optim)


def seconds(work: Callable[[], None]) -> float:
    """One iteration's time in one round."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(ITERATIONS):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / ITERATIONS / 1e3


def compare(work: str, theirs: Callable[[], None], ours: Callable[[], None], rounds: int) -> None:
    """Rounds alternate, so that a disturbance of the machine affects both sides."""
    theirs()
    ours()
    pairs = [(seconds(theirs), seconds(ours)) for _ in range(rounds)]
    their_time, our_time = (statistics.median(side) for side in zip(*pairs))
    print(f"{work:<52} {their_time * 1e6:>10.1f} us {our_time * 1e6:>10.1f} us {their_time / our_time:>7.2f}", flush=True)


def compare_unscale(library: Library, tensors: int, elements: int, rounds: int) -> None:
    """_amp_foreach_non_finite_check_and_unscale_ beside unscale and update, on the same zeros."""
    grads = [torch.zeros(elements, device="cuda") for _ in range(tensors)]
    found, inverse = torch.zeros(1, device="cuda"), torch.full((1,), 1 / SCALE, device="cuda")
    params = [torch.empty_like(grad) for grad in grads]
    ours = OurSide(library, params, grads, static=True)
    torch_unscale = torch._amp_foreach_non_finite_check_and_unscale_
    compare(
        f"unscale {tensors:,} x {elements:,} (ours: + update)",
        lambda: torch_unscale(grads, found, inverse),
        ours.unscale,
        rounds,
    )
    torch.cuda.synchronize()
    ours.free()


def compare_step(library: Library, tensors: int, elements: int, rounds: int) -> None:
    """GradScaler with fused AdamW beside step and update. Both begin with the same values; first the results of a few
    steps are compared."""
    generator = torch.Generator("cuda").manual_seed(1)
    params = [torch.rand(elements, device="cuda", generator=generator).add_(0.5) for _ in range(tensors)]
    grads = [torch.rand(elements, device="cuda", generator=generator).mul_(1e-3 * SCALE) for _ in range(tensors)]
    peers = [torch.nn.Parameter(param.clone()) for param in params]
    for peer, grad in zip(peers, grads):
        peer.grad = grad.clone()
    optimizer = torch.optim.AdamW(peers, lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=SCALE)
    scaler.scale(torch.zeros((), device="cuda"))  # creates the scale tensor

    def their_step() -> None:
        scaler.step(optimizer)
        scaler.update()

    ours = OurSide(library, params, grads, static=False)
    for _ in range(3):
        their_step()
        ours.step()
    torch.cuda.synchronize()
    difference = max(((a - b.detach()).abs() / b.detach().abs()).max().item() for a, b in zip(params, peers))
    if not difference <= TOLERANCE:
        raise RuntimeError(f"the weights differ by {difference:.3g}, relative; allowed is {TOLERANCE:.3g}")
    compare(f"scaler + fused AdamW, {tensors:,} x {elements:,}", their_step, ours.step, rounds)
    torch.cuda.synchronize()
    ours.free()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares the CUDA module with PyTorch's GradScaler on this GPU.")
    parser.add_argument("build", type=Path, help="build folder of the module")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a smoke run")
    arguments = parser.parse_args()
    library = Library(arguments.build)
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    print(f"PyTorch {torch.__version__}, gradscaler {library.gsc_version().decode()}, {torch.cuda.get_device_name()}")
    print(f"{'work':<52} {'PyTorch':>13} {'ours':>13} {'ratio':>7}")
    with torch.cuda.stream(torch.cuda.Stream()):
        for tensors, elements in ((10_000, 64), (100, 65_536), (1, 1 << 20 if arguments.quick else 1 << 28)):
            compare_unscale(library, tensors, elements, rounds)
        for tensors, elements in ((100, 4_096), (1, 1 << 20), (150, 10_000 if arguments.quick else 666_667)):
            compare_step(library, tensors, elements, rounds)


if __name__ == "__main__":
    main()

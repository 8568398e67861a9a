"""Tensors that claim to be on another device, compute on the CPU, and refuse what a GPU would refuse.

In: tensors. Out: the same within :func:`pretending`, on :data:`DEVICE`. An operation on tensors of two devices (but for
numbers, which have no dimension) is an error, and so is NumPy; ``.to("cpu")`` brings a tensor back. So code that
forgets a device fails where there is no GPU as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")  # which every torch knows; of a GPU it would load the driver


class Pretended(Tensor):
    """``held`` is what it holds."""

    held: Tensor

    @staticmethod
    def __new__(cls, real: Tensor) -> Pretended:
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, real.size(), strides=real.stride(), storage_offset=real.storage_offset(), dtype=real.dtype,
            layout=real.layout, device=DEVICE, requires_grad=False,
        )  # fmt: skip
        made.held = real
        return made  # type: ignore[no-any-return]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Pretended({self.held})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(function, args, kwargs or {})


class _Factories(TorchDispatchMode):
    """What is made on the other device is pretended, too."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(function, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """Tensors of Python's numbers are made on the CPU and moved: made on the device itself they would have none."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        wanted = kwargs.get("device")
        if function in (torch.tensor, torch.as_tensor) and wanted is not None and torch.device(wanted) == DEVICE:
            return function(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        if function is Tensor.new_tensor and isinstance(args[0], Pretended) and wanted is None:
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(DEVICE)
        return function(*args, **kwargs)


def _dispatch(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
    pretended = [each for each in given if isinstance(each, Pretended)]
    wanted = kwargs.get("device")
    moves = function.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_)
    if pretended and not moves:
        strange = [each for each in given if not isinstance(each, Pretended) and each.ndim > 0]
        if strange and not _is_index(function, args, strange):
            raise RuntimeError(
                f"{function}: tensors on two devices, one on the CPU, of shape {tuple(strange[0].shape)}"
            )
    if wanted is not None and torch.device(wanted) == DEVICE:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        stays = True
    else:
        stays = bool(pretended) and wanted is None
    if function.overloadpacket is torch.ops.aten.copy_:
        stays = isinstance(args[0], Pretended)
    real = tree_map(lambda each: each.held if isinstance(each, Pretended) else each, (args, kwargs))
    found = function(*real[0], **real[1])
    if function.overloadpacket is torch.ops.aten.copy_ or _returns_its_argument(function, args, real[0], found):
        return args[0]
    return tree_map(lambda each: Pretended(each) if isinstance(each, Tensor) and stays else each, found)


def _is_index(function: Any, args: Any, strange: list[Tensor]) -> bool:
    """Indices may be on the CPU, as torch allows in ``table[rows]`` (and nowhere else)."""
    if function.overloadpacket not in (torch.ops.aten.index, torch.ops.aten.index_put_):
        return False
    return all(any(each is index for index in args[1]) for each in strange)


def _returns_its_argument(function: Any, args: Any, real: Any, found: Any) -> bool:
    return bool(args) and isinstance(args[0], Pretended) and found is real[0]


@contextmanager
def pretending() -> Iterator[None]:
    """Tensors made on :data:`DEVICE` meanwhile are pretended ones."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _FromNumbers(), _Factories():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def elsewhere(tensor: Tensor) -> Tensor:
    """A copy that pretends."""
    return Pretended(tensor.detach().clone())


def brought_back(tensor: Tensor) -> Tensor:
    """What a pretended tensor holds; an error if it is none."""
    assert tensor.device == DEVICE, f"a result is on {tensor.device}"
    assert isinstance(tensor, Pretended)
    return tensor.held

"""Trained numbers inside option objects: damping, temperatures, counting numbers.

In: an inference method or decoder, which are frozen dataclasses. Out: a module that holds their parameters, so that
optimisers find them. Stage: learning. Nothing is copied: an optimiser's step on a parameter is one on the option.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from torch import Tensor, nn


class Settings(nn.Module):
    """The parameters and modules found in ``options``, each under its path (``inference/counting/rho/pair``)."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        for name, option in options.items():
            for path, found in trained_parts(option, name):
                key = path.replace("%", "%25").replace(".", "%2E")  # torch separates modules by dots
                if isinstance(found, nn.Parameter):
                    self.register_parameter(key, found)
                else:
                    self.add_module(key, found)


def trained_parts(option: object, path: str) -> Iterator[tuple[str, nn.Parameter | nn.Module]]:
    """Parameters and modules in dataclasses, mappings and sequences, with their paths."""
    if isinstance(option, nn.Parameter | nn.Module):
        yield path, option
    elif isinstance(option, Tensor):
        if option.requires_grad:
            raise ValueError(
                f"{path} is a tensor that wants a gradient, but no parameter that an optimiser could change; give it "
                "as torch.nn.Parameter"
            )
    elif dataclasses.is_dataclass(option) and not isinstance(option, type):
        for field in dataclasses.fields(option):
            yield from trained_parts(getattr(option, field.name), f"{path}/{field.name}")
    elif isinstance(option, Mapping):
        for key, value in option.items():
            yield from trained_parts(value, f"{path}/{key}")
    elif isinstance(option, list | tuple):
        for number, value in enumerate(option):
            yield from trained_parts(value, f"{path}/{number}")

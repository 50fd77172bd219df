"""Replace the convolution layers of a model by ours, in place, and put them back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

from tconv.adapters.torch.functional import unfit
from tconv.adapters.torch.modules import OURS

Module = Any  # torch is not typed

THEIRS: dict[type, type] = {ours: theirs for theirs, ours in OURS.items()}
MARK = "_tconv_replaced"  # on layers that restore must put back


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution layer of a model, and why it was left as it is; replaced if nothing."""

    name: str
    kind: str
    reason: str = ""

    def __str__(self) -> str:
        """Print one line."""
        return f"{self.name or '(the model itself)'}  {self.kind}  {self.reason}".rstrip()


@dataclass(frozen=True, slots=True)
class Report:
    """What :func:`accelerate` did to the convolution layers of a model."""

    replaced: tuple[Layer, ...]
    left: tuple[Layer, ...]

    def __str__(self) -> str:
        """Print both lists."""
        lines = [f"replaced {_count(self.replaced)}"]
        lines += [f"  {layer}" for layer in self.replaced]
        if self.left:
            lines += [f"left {_count(self.left)} as they are"]
            lines += [f"  {layer}" for layer in self.left]
        return "\n".join(lines)


def accelerate(model: Module) -> Report:
    """Let tconv compute a model's convolution layers, and tell which and why others not.

    The layers stay the same objects with the same parameters, hooks and names; only their class
    changes, to the one of this package.  Nothing is copied; :func:`restore` undoes it.

    >>> model = torch.nn.Sequential(torch.nn.ConvTranspose1d(4, 2, 4, stride=2), torch.nn.Tanh())
    >>> print(accelerate(model))
    replaced 1 layer
      0  ConvTranspose1d
    """
    _check_model("accelerate", model)
    replaced: list[Layer] = []
    left: list[Layer] = []
    for name, layer in _layers(model):
        kind = _own_class(layer)
        reason = _reason(layer, kind)
        if not reason:
            _change_class(layer, OURS[kind])
            setattr(layer, MARK, True)
        (left if reason else replaced).append(Layer(name, kind.__name__, reason))
    return Report(tuple(replaced), tuple(left))


def restore(model: Module) -> None:
    """Undo :func:`accelerate`: every layer that it replaced gets its own class back.

    >>> model = torch.nn.Sequential(torch.nn.ConvTranspose1d(4, 2, 4, stride=2))
    >>> report = accelerate(model)
    >>> restore(model)
    >>> type(model[0]) is torch.nn.ConvTranspose1d
    True
    """
    _check_model("restore", model)
    for _, layer in _layers(model):
        if MARK in vars(layer):
            delattr(layer, MARK)
            _change_class(layer, THEIRS[_own_class(layer)])


def _count(layers: tuple[Layer, ...]) -> str:
    return f"{len(layers)} layer{'s' if len(layers) != 1 else ''}"


def _layers(model: Module) -> Iterator[tuple[str, Module]]:
    return ((name, layer) for name, layer in model.named_modules() if isinstance(layer, _ConvNd))


def _own_class(layer: Module) -> type:
    """Return a layer's class, beneath the one that torch makes for parametrized layers."""
    kind = type(layer)
    return kind.__bases__[0] if parametrize.is_parametrized(layer) else kind


def _change_class(layer: Module, new: type) -> None:
    kind = type(layer)
    if parametrize.is_parametrized(layer):
        # Torch made a class for this layer, and its copies share it: make another.
        members = {k: v for k, v in vars(kind).items() if k not in ("__dict__", "__weakref__")}
        new = type(kind.__name__, (new,), members)
    layer.__class__ = new


def _reason(layer: Module, kind: type) -> str:
    """Return why a layer cannot be replaced, or nothing."""
    if kind in THEIRS:
        return "is computed by tconv already"
    if isinstance(layer, LazyModuleMixin):
        return "has no weights yet; run the model once, then accelerate it again"
    if kind not in OURS:
        return f"{kind.__name__} may compute something of its own"
    if "forward" in vars(layer) or "_conv_forward" in vars(layer):
        return "has a forward method of its own"
    values = [each for each in (layer.weight, layer.bias) if each is not None]
    weight, *bias = [each.detach() for each in values]
    return unfit((weight, weight, *(bias or [None])))


def _check_model(name: str, model: object) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"tconv {name}: a torch.nn.Module is needed, not {type(model).__name__}")

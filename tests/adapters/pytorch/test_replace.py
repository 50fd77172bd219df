"""accelerate replaces what it can and tells why it leaves the rest; restore undoes it."""

import copy
from typing import Any

import pytest

from engines import require

torch = require.module("torch")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped

nn = torch.nn


class Own(nn.Conv2d):  # type: ignore[misc,name-defined] # torch is not typed
    """A layer that computes something of its own."""

    def forward(self, input: Any) -> Any:  # noqa: A002, ANN401 - torch's word; torch is not typed
        """Return twice what torch would."""
        return 2 * super().forward(input)


def model() -> Any:  # noqa: ANN401 - torch is not typed
    """Return a model with layers of every kind, one of them twice."""
    torch.manual_seed(0)
    shared = nn.Conv2d(4, 4, 3, padding=1)
    return nn.ModuleDict(
        {
            "plain": nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 4, 2)),
            "one": shared,
            "two": shared,
            "own": Own(3, 4, 3),
            "lazy": nn.LazyConv2d(4, 3),
            "ours": adapter.Conv1d(3, 4, 3),
            "meta": nn.Conv3d(3, 4, 3, device="meta"),
            "norm": nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(3, 4, 3)),
        }
    )


def test_the_report_names_every_convolution() -> None:
    """Those that were replaced, and a reason for each that was not."""
    report = adapter.accelerate(model())

    assert [layer.name for layer in report.replaced] == ["plain.0", "plain.2", "one", "norm"]
    assert {layer.name: layer.reason for layer in report.left} == {
        "own": "Own may compute something of its own",
        "lazy": "has no weights yet; run the model once, then accelerate it again",
        "ours": "is computed by tconv already",
        "meta": "tensors are on meta",
    }
    assert str(report).splitlines()[0] == "replaced 4 layers"
    assert "  own  Own  Own may compute something of its own" in str(report)


def test_layers_stay_what_they_are() -> None:
    """The same objects, parameters, names and hooks, in the same places."""
    network = model()
    layer, weight = network["one"], network["one"].weight
    called: list[str] = []
    layer.register_forward_hook(lambda *_: called.append("hook"))
    state = dict(network["plain"].state_dict())
    adapter.accelerate(network)
    layer(torch.ones(1, 4, 5, 5))

    assert network["one"] is network["two"] is layer
    assert layer.weight is weight
    assert type(layer) is adapter.Conv2d
    assert isinstance(network["plain"][2], adapter.ConvTranspose2d)
    assert called == ["hook"]
    for name, value in network["plain"].state_dict().items():
        assert value.data_ptr() == state[name].data_ptr()


def test_restore_undoes_it() -> None:
    """And leaves alone what accelerate did not replace."""
    network = model()
    before = {name: type(layer) for name, layer in network.named_modules()}
    attributes = {name: set(vars(layer)) for name, layer in network.named_modules()}
    adapter.accelerate(network)
    again = adapter.accelerate(network)
    adapter.restore(network)

    assert not again.replaced
    assert type(network["norm"]).__bases__ == before.pop("norm").__bases__
    for name, kind in before.items():
        assert type(network.get_submodule(name)) is kind
    assert {name: set(vars(layer)) for name, layer in network.named_modules()} == attributes
    adapter.restore(network)  # twice is as good as once


def test_a_model_may_be_one_layer() -> None:
    """Nobody holds it but the caller."""
    layer = nn.Conv1d(2, 2, 3)
    report = adapter.accelerate(layer)

    assert type(layer) is adapter.Conv1d
    assert str(report) == "replaced 1 layer\n  (the model itself)  Conv1d"


def test_parametrized_layers_are_computed_by_tconv() -> None:
    """weight_norm, as vocoders have it: its weights are made anew in every call."""
    layer = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(3, 4, 4, stride=2))
    data = torch.randn(2, 3, 5)
    twin = copy.deepcopy(layer)
    adapter.accelerate(layer)
    for each in (layer, twin):
        each(data).square().sum().backward()

    assert isinstance(layer, adapter.ConvTranspose1d)
    assert not isinstance(twin, adapter.ConvTranspose1d)
    torch.testing.assert_close(layer(data), twin(data))
    for mine, right in zip(layer.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, right.grad)
    with torch.no_grad():
        layer.eval()(data)
        for each in (layer, twin):
            each.parametrizations.weight.original0.mul_(2)

        torch.testing.assert_close(layer(data), twin(data))
    nn.utils.parametrize.remove_parametrizations(layer, "weight")

    assert type(layer) is adapter.ConvTranspose1d
    adapter.restore(layer)
    assert type(layer) is nn.ConvTranspose1d


def test_copies_of_an_accelerated_model_are_accelerated_and_can_be_restored() -> None:
    """deepcopy, as for moving averages of weights."""
    network = nn.Sequential(nn.Conv1d(2, 2, 3))
    adapter.accelerate(network)
    twin = copy.deepcopy(network)
    adapter.restore(twin)

    assert type(twin[0]) is nn.Conv1d
    assert type(network[0]) is adapter.Conv1d


def test_a_layer_with_a_forward_of_its_own_is_left() -> None:
    """Somebody has replaced the method on this very object."""
    layer = nn.Conv1d(2, 2, 3)
    layer.forward = lambda data: data
    (left,) = adapter.accelerate(layer).left

    assert left.reason == "has a forward method of its own"


@pytest.mark.parametrize("function", [adapter.accelerate, adapter.restore])
def test_only_models_are_taken(function: Any) -> None:  # noqa: ANN401 - either
    """Not their outputs."""
    with pytest.raises(TypeError, match=r"a torch\.nn\.Module is needed, not Tensor"):
        function(torch.ones(1))

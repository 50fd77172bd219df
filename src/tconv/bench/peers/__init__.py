"""Who takes part in the race; nobody's engine is imported before it is asked to run."""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from tconv.bench.peers.peer import Ready, Refused, Task
from tconv.bench.suite import LAYOUTS
from tconv.problem import Operand

DATA = (Operand.FINE, Operand.COARSE)
EVERY = tuple(Operand)


@dataclass(frozen=True, slots=True)
class Peer:
    """A name in the report, where its code is, and what it takes part in.

    It is compared with us where a person with data in that layout could choose it.
    """

    name: str
    module: str
    function: str
    races: frozenset[tuple[Operand, str]]

    def load(self) -> Any:  # noqa: ANN401 - a module
        """Import the peer's module, and its engine with it, or refuse with the reason."""
        try:
            return importlib.import_module(f"{__name__}.{self.module}")
        except ImportError as error:
            raise Refused(f"cannot be imported: {error}") from error

    def prepare(self, task: Task) -> Ready:
        """Get everything ready to run the task, or refuse with the reason."""
        ready: Ready = getattr(self.load(), self.function)(task)
        return ready

    def version(self) -> str:
        """Return the version of the engine, or refuse with the reason that it is missing."""
        return str(self.load().version())


def _races(wanted: Iterable[Operand], *layouts: str) -> frozenset[tuple[Operand, str]]:
    return frozenset(product(wanted, layouts))


# A weight gradient reads both data arrays, and torch's users choose their memory format.
_GRADIENT = _races([Operand.WEIGHTS], *LAYOUTS)

OURS = {
    "bound": Peer("tconv", "ours", "bound", _races(EVERY, *LAYOUTS)),
    "eager": Peer("tconv", "ours", "eager", _races(EVERY, *LAYOUTS)),
}
DIRECT = Peer("tconv direct", "ours", "direct", _races(DATA, *LAYOUTS))
PEERS = (
    Peer("torch", "torch", "contiguous", _races(DATA, "NCX") | _GRADIENT),
    Peer("torch channels_last", "torch", "channels_last", _races(DATA, "NXC") | _GRADIENT),
    Peer("onednn", "onednn", "in_layout", _races(EVERY, *LAYOUTS)),
    Peer("onednn any", "onednn", "blocked", _races(EVERY, "NXC")),
    Peer("openvino", "openvino", "one_operator", _races(DATA, "NCX")),
    Peer("onnxruntime", "onnxruntime", "one_node", _races(DATA, "NCX")),
)

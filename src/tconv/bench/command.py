"""The command ``tconv bench``: choose layers, race them, print rows as they come, keep a file."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tconv.bench.cliffs import run_cliffs
from tconv.bench.measure import answer_of, copy_bandwidth, race
from tconv.bench.peak import fma_peak
from tconv.bench.peers import DIRECT, OURS, PEERS, Peer
from tconv.bench.peers.peer import Refused, Task
from tconv.bench.progress import Progress
from tconv.bench.report import head_lines, row_lines, summary_lines
from tconv.bench.results import Results, Row, describe_machine, write_results
from tconv.bench.suite import LAYOUTS, Layer, load_suite
from tconv.bench.tiles import keep_from_missing_tiles
from tconv.dialects.attributes import nearest
from tconv.errors import InternalError, ProblemError
from tconv.problem import DTYPES, Operand
from tconv.threads import get_num_threads, set_num_threads

WANTED = {"fine": Operand.FINE, "coarse": Operand.COARSE, "weights": Operand.WEIGHTS}
TITLE = "tconv bench"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is to be measured, and how."""

    layers: tuple[Layer, ...]
    wanted: tuple[str, ...]
    layouts: tuple[str, ...]
    dtype: str
    threads: int
    calls: str  # bound or eager
    seconds: float
    peers: bool


def add_bench_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``bench`` to the commands of the command line."""
    parser = commands.add_parser(
        "bench",
        help="measure speed on a suite of layers",
        description="Measure speed on a suite of layers, alone or against every installed peer.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="layers, or models; all if none is named"
    )
    parser.add_argument(
        "--models", action="store_true", help="race whole models, with and without tconv in torch"
    )
    parser.add_argument(
        "--cliffs", action="store_true", help="time random layers; print the slow of each family"
    )
    parser.add_argument(
        "--count", type=int, default=360, metavar="N", help="random layers (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="which random layers (default: %(default)s)",
    )
    parser.add_argument("--peers", action="store_true", help="race every installed peer")
    parser.add_argument(
        "--wanted", default=",".join(WANTED), metavar="W,...", help="default: %(default)s"
    )
    parser.add_argument(
        "--layout", default=",".join(LAYOUTS), metavar="L,...", help="default: %(default)s"
    )
    parser.add_argument(
        "--dtype",
        help=f"{', '.join(DTYPES)} (default: float32; with --models float32 and bfloat16)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="default: all processors")
    parser.add_argument(
        "--eager", action="store_true", help="pack the weights in every call of tconv"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="how long each row is timed at least (default: 1; with --cliffs 0.1)",
    )
    parser.add_argument("--json", type=Path, metavar="F", help="write everything to a file")
    parser.set_defaults(command=run_bench)


def run_bench(options: argparse.Namespace) -> None:
    """Measure what the options ask for; raise if a result of ours was wrong."""
    keep_from_missing_tiles()
    if options.seconds is None:
        options.seconds = 0.1 if options.cliffs else 1.0
    if options.cliffs:
        _find_cliffs(options)
        return
    if options.models:
        _race_models(options)
        return
    settings = _settings(options)
    entrants, versions = _present(settings)
    results = _start(settings, versions)
    if options.json:
        write_results(options.json, results)  # refuse a bad name now, not after the run
    try:
        _measure(settings, entrants, results)
    finally:
        if options.json:
            write_results(options.json, results)
    _print(summary_lines(results))
    wrong = [f"{row.layer} {row.wanted} {row.layout}" for row in results.rows if row.ours.note]
    if wrong:
        raise InternalError(
            TITLE,
            f"tconv has no right result in {len(wrong)} of {len(results.rows)} rows.",
            got={"rows": ", ".join(wrong)},
            rule="every result is within the tolerance of its element type",
            fix="please report this run",
        )


def _settings(options: argparse.Namespace) -> Settings:
    layers = {layer.name: layer for layer in load_suite()}
    threads = _threads(options)
    names = _chosen("layer", options.names or layers, layers)
    return Settings(
        layers=tuple(layers[name] for name in names),
        wanted=_chosen("--wanted", options.wanted.lower().split(","), WANTED),
        layouts=_chosen("--layout", options.layout.upper().split(","), LAYOUTS),
        dtype=_chosen("--dtype", [options.dtype or DTYPES[0]], DTYPES)[0],
        threads=threads,
        calls="eager" if options.eager else "bound",
        seconds=options.seconds,
        peers=options.peers,
    )


def _threads(options: argparse.Namespace) -> int:
    """Return how many threads to use, after checking the numbers."""
    threads: int = get_num_threads() if options.threads is None else options.threads
    if threads < 1 or not options.seconds >= 0:
        raise _refuse(f"--threads is {threads}, --seconds {options.seconds:g}.", "threads >= 1")
    return threads


def _find_cliffs(options: argparse.Namespace) -> None:
    """Hand over to random layers."""
    if options.names or options.models or options.peers or options.eager or options.dtype:
        raise _refuse("--cliffs draws its own layers.", "use --count, --seed, --seconds, --json")
    if options.count < 1:
        raise _refuse(f"--count is {options.count}.", "--count 1 or more")
    set_num_threads(_threads(options))
    run_cliffs(options.count, options.seed, options.seconds, options.json)


def _race_models(options: argparse.Namespace) -> None:
    """Hand over to the race of models, which needs torch."""
    try:
        from tconv.bench.models import MODELS, command, race  # noqa: PLC0415 - needs torch
    except ImportError as error:
        raise ProblemError(
            TITLE,
            f"torch cannot be imported: {error}.",
            got={},
            rule="--models compares with torch",
            fix="pip install torch",
        ) from error
    models = {model.name: model for model in MODELS}
    dtypes = [options.dtype] if options.dtype else race.DTYPES
    command.run_models(
        [models[name] for name in _chosen("model", options.names or models, models)],
        _chosen("--dtype", dtypes, race.DTYPES),
        _threads(options),
        options.seconds,
        options.json,
    )


def _chosen(what: str, names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the names without repetitions, or refuse one that is not known."""
    known = tuple(known)
    for name in names:
        if name not in known:
            near = nearest(name, known)
            fix = f"did you mean {near}?" if near else f"choose from: {', '.join(known)}"
            raise _refuse(f"there is no {what} {name!r:.60}.", fix)
    return tuple(dict.fromkeys(names))


def _refuse(wrong: str, fix: str) -> ProblemError:
    return ProblemError(
        TITLE, wrong, got={}, rule="names are those of the suite and of `tconv bench -h`", fix=fix
    )


def _present(settings: Settings) -> tuple[tuple[Peer, ...], dict[str, str]]:
    """Return who can take part, and the version of every engine or why it is missing."""
    present, versions = [], {}
    own = (OURS[settings.calls], *((DIRECT,) if settings.calls == "bound" else ()))
    for peer in (*own, *(PEERS if settings.peers else ())):
        engine = peer.name.partition(" ")[0]
        try:
            versions[engine] = peer.version()
            present.append(peer)
        except Refused as refusal:
            versions[engine] = f"missing ({refusal})"
    return tuple(present), versions


def _start(settings: Settings, versions: dict[str, str]) -> Results:
    """Measure the machine and print the head of the table."""
    results = Results(
        machine=describe_machine(),
        versions=versions,
        settings={
            "dtype": settings.dtype,
            "threads": settings.threads,
            "calls": settings.calls,
            "seconds": settings.seconds,
        },
        peak=_peak(settings),
        copy=copy_bandwidth(),
    )
    _print(head_lines(results))
    return results


def _peak(settings: Settings) -> float:
    """Return the peak in the type that is measured: a float64 vector has half as many numbers."""
    return fma_peak(settings.threads) / (2 if settings.dtype == "float64" else 1)


def _measure(settings: Settings, entrants: Sequence[Peer], results: Results) -> None:
    """Race every row and print it."""
    total = len(settings.layers) * len(settings.wanted) * len(settings.layouts)
    progress = Progress(sys.stderr, total)
    try:
        for layer, wanted in product(settings.layers, settings.wanted):
            progress.show(f"{layer.name} {wanted}")
            for row in _race_layouts(settings, entrants, layer, wanted):
                results.rows.append(row)
                progress.clear()
                _print(row_lines(results, row))
                progress.step()
                progress.show(f"{layer.name} {wanted}")
        # Other programs can only make it look lower.
        results.peak = max(results.peak, _peak(settings))
        results.complete = True
    finally:
        progress.clear()


def _race_layouts(
    settings: Settings, entrants: Sequence[Peer], layer: Layer, name: str
) -> Iterator[Row]:
    """Yield the row of each layout; they share the arrays and the right answer."""
    wanted = WANTED[name]
    given = layer.arrays(wanted, settings.dtype)
    right = None
    for layout in settings.layouts:
        task = Task(layer, wanted, layout, settings.dtype, settings.threads, given)
        right = answer_of(task) if right is None else right
        runners = [peer for peer in entrants if (wanted, layout) in peer.races]
        outcomes = race(task, right, runners, settings.seconds)
        size = layer.problem(wanted, layout, settings.dtype).bytes()
        yield Row(layer.name, name, layout, layer.flops, size, outcomes)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

"""The command line."""

import argparse
import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from tconv import __version__
from tconv.arguments import find_operator, operators, parse_attributes, parse_shape_text, shape_word
from tconv.bench.command import add_bench_parser
from tconv.calls import Runnable
from tconv.errors import AmbiguousSpecWarning, ProblemError, TconvError
from tconv.explain.demo import run_demo
from tconv.files import read_array, write_array
from tconv.settings import settings

EXAMPLE = """\
example:
  tconv shape openvino.GroupConvolutionBackpropData --attr strides=2,2 --attr pads_begin=1,1 \\
      --attr pads_end=1,1 --attr dilations=1,1 1x20x224x224 4x5x2x3x3
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 2 with the error's text on standard error."""
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", AmbiguousSpecWarning)
        warnings.showwarning = _show_warning
        try:
            options.command(options)
            sys.stdout.flush()
        except TconvError as error:
            print(error, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:
            # The reader went away (`| head`): there is nobody left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tconv",
        description="Transposed convolution and the convolution-gradient family on CPUs.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tconv {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser("demo", help="send a picture through the operators; write a PNG")
    demo.add_argument("-o", "--output", type=Path, default=Path("tconv-demo.png"), metavar="F")
    demo.set_defaults(command=_demo)

    ops = commands.add_parser("ops", help="list the operators, or the attributes of one")
    ops.add_argument("op", nargs="?", metavar="OP")
    ops.add_argument("--json", action="store_true", help="print for programs")
    ops.set_defaults(command=_ops)

    shape = _operator_parser(commands, "shape", "print the shape of the result and the pads used")
    shape.add_argument("shapes", nargs="+", metavar="SHAPE", help="1x20x224x224; ? is not known")
    shape.add_argument("--json", action="store_true", help="print for programs")
    shape.set_defaults(command=_shape)

    run = _operator_parser(commands, "run", "compute: .npy files in, .npy file out")
    run.add_argument(
        "files", nargs="+", metavar="F.npy", help="the inputs in their order", type=Path
    )
    run.add_argument("-o", "--output", type=Path, required=True, metavar="F.npy")
    run.add_argument("--force", action="store_true", help="overwrite the output")
    run.set_defaults(command=_run)

    plan = _operator_parser(commands, "plan", "print what would run, and why")
    plan.add_argument("shapes", nargs="+", metavar="SHAPE")
    plan.add_argument("--dtype", default="float32", help="float32, float64, float16 or bfloat16")
    plan.add_argument("--algorithm", help="direct or winograd; what is faster if none is named")
    plan.set_defaults(command=_plan)

    add_bench_parser(commands)

    cache = commands.add_parser("cache", help="show or clear the cache of compiled kernels")
    cache.add_argument("--clear", action="store_true", help="remove every entry")
    cache.set_defaults(command=_cache)
    return parser


def _operator_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text)
    parser.add_argument("op", metavar="OP", help="such as onednn.ConvTranspose; see: tconv ops")
    parser.add_argument(
        "--attr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an attribute, lists with commas: --attr strides=2,2",
    )
    return parser


def _operator(options: argparse.Namespace) -> Runnable:
    kind = find_operator(options.op)
    return kind(**parse_attributes(kind, options.attr))


def _demo(options: argparse.Namespace) -> None:
    run_demo(options.output, sys.stdout)


def _ops(options: argparse.Namespace) -> None:
    chosen = operators()
    if options.op:
        kind = find_operator(options.op)
        chosen = {name: each for name, each in chosen.items() if each is kind}
    records = {
        name: {
            "inputs": [*kind.inputs, *([kind.third] if kind.third else [])],
            "result": kind.result,
            "attributes": {
                each.name: "required" if each.default is dataclasses.MISSING else each.default
                for each in dataclasses.fields(kind)
            },
        }
        for name, kind in chosen.items()
    }
    if options.json:
        print(json.dumps(records, indent=2))
        return
    for name, kind in chosen.items():
        inputs = ", ".join(kind.inputs) + (f"[, {kind.third}]" if kind.third else "")
        print(f"{name}({inputs}) -> {kind.result}")
        if options.op:
            for attribute, default in records[name]["attributes"].items():  # type: ignore[attr-defined]
                print(f"  {attribute:<15} {default}")


def _shape(options: argparse.Namespace) -> None:
    op = _operator(options)
    shapes = [parse_shape_text(text) for text in _two_or_three(op, options.shapes)]
    shape = op.infer_shape(*shapes)
    begin, end = op.resolve_pads(*shapes)
    if options.json:
        answer = {"op": options.op, "shape": shape, "pads_begin": begin, "pads_end": end}
        print(json.dumps(answer))
        return
    print(shape_word(shape))
    print(f"pads_begin  {shape_word(begin, ',')}")
    print(f"pads_end    {shape_word(end, ',')}")


def _run(options: argparse.Namespace) -> None:
    op = _operator(options)
    if options.output.exists() and not options.force:
        raise ProblemError(
            "tconv run",
            f"{options.output} exists.",
            got={},
            rule="an existing file is not overwritten",
            fix="pass --force, or another name",
        )
    arrays = [read_array(path) for path in _two_or_three(op, options.files)]
    result = op(*arrays)
    write_array(options.output, result)
    print(f"{options.output}: {shape_word(result.shape)} {result.dtype.name}")


def _plan(options: argparse.Namespace) -> None:
    op = _operator(options)
    shapes = [parse_shape_text(text) for text in _two_or_three(op, options.shapes)]
    print(op.plan(*shapes, dtype=options.dtype, algorithm=options.algorithm))


def _two_or_three(op: Runnable, given: Sequence[object]) -> list[object]:
    """Refuse too few or too many inputs in the operator's own words."""
    names = [*op.inputs, *([op.third] if op.third else [])]
    if not 2 <= len(given) <= len(names):
        raise ProblemError(
            op.title(),
            f"{len(given)} inputs were given.",
            got={"inputs": " ".join(map(str, given))},
            rule=f"the inputs are {', '.join(names)}   ({op.document})",
            fix=f"pass {' or '.join(map(str, range(2, len(names) + 1)))} inputs",
        )
    return list(given)


def _cache(options: argparse.Namespace) -> None:
    from tconv.jit import cache_entries, clear_cache  # noqa: PLC0415 - needs a compiler

    folder = settings().cache_dir
    if options.clear:
        print(f"removed {clear_cache(folder)} compiled kernels from {folder}")
        return
    entries = cache_entries(folder)
    print(f"{folder}: {len(entries)} compiled kernels, {sum(entries.values()) / 1e6:.1f} MB")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)

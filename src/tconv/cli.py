"""The command line."""

import argparse
import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tconv import __version__
from tconv.arguments import (
    find_operator,
    operator_name,
    operators,
    parse_attributes,
    read_asked,
    shape_word,
    two_or_three,
)
from tconv.bench.command import add_bench_parser
from tconv.benchdnn import check_problem, read_problem
from tconv.errors import AmbiguousSpecWarning, ProblemError, TconvError
from tconv.explain.command import add_explain_options, add_translate_options
from tconv.explain.demo import run_demo
from tconv.files import read_array, write_array
from tconv.settings import settings

EXAMPLE = """\
example:
  tconv shape openvino.GroupConvolutionBackpropData --attr strides=2,2 --attr pads_begin=1,1 \\
      --attr pads_end=1,1 --attr dilations=1,1 1x20x224x224 4x5x2x3x3
"""

WORDS = {"SHAPE": "1x20x224x224; ? is not known", "F.npy": "the inputs in their order"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 2 with the error's text on standard error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    problem = any(word.startswith("--problem") for word in given)
    parser = _parser(problem=problem)
    options, rest = parser.parse_known_args(given)
    if problem and not any(word.startswith("-") for word in rest):
        options.words += rest  # words on both sides of an option, where none need be given
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
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


def _parser(*, problem: bool) -> argparse.ArgumentParser:
    """Return the parser; with a problem in oneDNN's notation, other words need not be given."""
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

    add = partial(_operator_parser, commands, problem=problem)
    shape = add("shape", "print the shape of the result and the pads used")
    shape.add_argument("--json", action="store_true", help="print for programs")
    shape.set_defaults(command=_shape)

    text = "print sizes, pads, phases, cost and plan step by step; draw them"
    add_explain_options(add("explain", text))
    text = "say the same call in torch, ONNX, OpenVINO, oneDNN, Keras and lax"
    add_translate_options(add("translate", text))

    run = add("run", "compute: .npy files in, .npy file out", word="F.npy")
    run.add_argument("-o", "--output", type=Path, required=not problem, metavar="F.npy")
    run.add_argument("--force", action="store_true", help="overwrite the output")
    run.set_defaults(command=_run)

    plan = add("plan", "print what would run, and why")
    plan.add_argument("--dtype", default=None, help="float32, float64, float16 or bfloat16")
    plan.add_argument("--algorithm", help="direct or winograd; what is faster if none is named")
    plan.set_defaults(command=_plan)

    add_bench_parser(commands)

    cache = commands.add_parser("cache", help="show or clear the cache of compiled kernels")
    cache.add_argument("--clear", action="store_true", help="remove every entry")
    cache.set_defaults(command=_cache)
    return parser


def _operator_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    *,
    problem: bool,
    word: str = "SHAPE",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text)
    if not problem:
        parser.add_argument("op", metavar="OP", help="such as onednn.ConvTranspose; see: tconv ops")
    parser.add_argument("words", nargs="*" if problem else "+", metavar=word, help=WORDS[word])
    parser.add_argument(
        "--attr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an attribute, lists with commas: --attr strides=2,2",
    )
    parser.add_argument(
        "--problem",
        metavar="P",
        help='all of it in oneDNN\'s notation instead: "--deconv g1ic64iw8oc17kw3sw2pw1"',
    )
    return parser


def _demo(options: argparse.Namespace) -> None:
    run_demo(options.output, sys.stdout)


def _ops(options: argparse.Namespace) -> None:
    chosen = operators()
    if options.op:
        kind = find_operator(options.op)
        chosen = {operator_name(kind): kind}
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
    asked = read_asked(options)
    op, shapes = asked.operator, asked.shapes
    shape = op.infer_shape(*shapes)
    begin, end = op.resolve_pads(*shapes)
    if options.json:
        name = operator_name(type(op)) if options.problem else options.op
        answer = {"op": name, "shape": shape, "pads_begin": begin, "pads_end": end}
        print(json.dumps(answer))
        return
    print(shape_word(shape))
    print(f"pads_begin  {shape_word(begin, ',')}")
    print(f"pads_end    {shape_word(end, ',')}")


def _run(options: argparse.Namespace) -> None:
    if options.output and options.output.exists() and not options.force:
        raise ProblemError(
            "tconv run",
            f"{options.output} exists.",
            got={},
            rule="an existing file is not overwritten",
            fix="pass --force, or another name",
        )
    words = options.words
    if options.problem is not None:
        kinds = [find_operator(word) for word in words[:1] if not word.endswith(".npy")]
        asked, words = read_problem(options.problem, *kinds), words[len(kinds) :]
        op = asked.operator
    else:
        kind = find_operator(options.op)
        op = kind(**parse_attributes(kind, options.attr))
    if options.problem is not None and not words:
        result, verdict = check_problem(asked)
        print(verdict)
    else:
        result = op(*(read_array(Path(str(path))) for path in two_or_three(op, words)))
    if options.output:
        write_array(options.output, result)
        print(f"{options.output}: {shape_word(result.shape)} {result.dtype.name}")


def _plan(options: argparse.Namespace) -> None:
    asked = read_asked(options)
    dtype = options.dtype or asked.dtype
    print(asked.operator.plan(*asked.shapes, dtype=dtype, algorithm=options.algorithm))


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

"""The explorer page in a real browser: its answers, its words, its keyboard, its looks."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines import browser
from explain.settings import draw_state
from tconv.arguments import operator_name
from tconv.explain.answer import answer
from tconv.explain.page import table, write_page
from tconv.explain.state import State, call_of, page_operators, state_of
from tconv.reference import meetings

pytestmark = pytest.mark.xdist_group("browser")

START = State(
    op="onednn.ConvTranspose", size=(5,), kernel=(4,), stride=(2,), dilation=(1,),
    pads_begin=(1,), pads_end=(1,), output_padding=(0,), x_channels=4, y_channels=2,
    data_format="NXC",
)  # fmt: skip
PLANE = dataclasses.replace(
    START, op="onnx.ConvTranspose", size=(3, 4), kernel=(3, 3), stride=(2, 3), dilation=(1, 1),
    pads_begin=(1, 0), pads_end=(0, 1), output_padding=(1, 1), auto_pad="NOTSET", data_format="NCX",
)  # fmt: skip
BAD: tuple[dict[str, Any], ...] = (
    {"stride": (0,)},
    {"size": (0,)},
    {"pads_begin": (40,)},
    {"op": "onnx.ConvTranspose", "auto_pad": "SAME_UPER", "data_format": "NCX"},
    {"op": "onnx.ConvTranspose", "auto_pad": "NOTSET", "output_padding": (5,)},
    {"op": "onednn.Convolution", "kernel": (20,)},
    {"op": "onednn.ConvolutionBackwardData"},
)
SOUND, WILD = 260, 240
TIMES = "\N{MULTIPLICATION SIGN}"

# The colour of a text and of what lies behind it, for every text that is shown.
CONTRASTS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const wanted = "h1, h2, p, label, legend, pre, td, th, li, button, select, caption, footer";
  return [...document.querySelectorAll(wanted)]
    .filter((node) => node.textContent.trim() && node.getClientRects().length)
    .map((node) => {
      const pair = [light(parse(getComputedStyle(node).color)), light(behind(node))];
      pair.sort((a, b) => b - a);
      return [node.tagName + "#" + node.id, (pair[0] + 0.05) / (pair[1] + 0.05)];
    });
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Keep one browser for all tests of this file."""
    with browser.opened() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page once."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(write_page(START), encoding="utf-8")
    return path


@pytest.fixture
def page(chromium: Any, file: Path) -> Iterator[Any]:  # noqa: ANN401 - playwright is optional
    """Open the page; an error in its scripts fails the test."""
    opened = chromium.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(file.as_uri())
    yield opened
    opened.close()

    assert errors == []


def plain(state: State) -> Any:  # noqa: ANN401 - JSON
    """Return a setting as the page holds it."""
    return json.loads(json.dumps(dataclasses.asdict(state)))


def show(page: Any, state: State) -> Any:  # noqa: ANN401 - playwright is optional
    """Let the page show a setting, and return what the library says of it."""
    page.evaluate("(state) => window.tconv.setState(state)", plain(state))
    return answer(state)


@pytest.mark.parametrize(("wild", "count"), [(False, SOUND), (True, WILD)], ids=["sound", "wild"])
def test_random_settings_have_the_librarys_answer(page: Any, wild: bool, count: int) -> None:  # noqa: ANN401, FBT001 - drawn
    """Call, shapes, pads, formulas, phases, readings, cost, six translations, or the refusal."""
    states = [draw_state(seed, wild=wild) for seed in range(count)]
    theirs = page.evaluate(
        "(states) => states.map((state) => window.tconv.answerOf(state))", list(map(plain, states))
    )
    refused = 0
    for state, found in zip(states, theirs, strict=True):
        expected = json.loads(json.dumps(answer(state)))
        refused += "error" in expected

        assert found == expected, state
    assert len(theirs) == count
    assert refused > 20
    assert count - refused > 50


def test_what_meets_where_is_the_definitions(page: Any) -> None:  # noqa: ANN401 - playwright is optional
    """For every point of the result, of settings with one and two axes."""
    compared = 0
    for seed in range(60):
        state = draw_state(seed)
        if "error" in answer(state):
            continue
        op, shapes = call_of(state)
        problem = op.problem(*shapes)
        order = {"coarse": 0, "weights": 1, "fine": 2}
        own = order.pop(problem.wanted.value)
        expected: dict[str, list[Any]] = {}
        for triple in meetings(problem.axes):
            pair = [list(triple[place]) for place in sorted(order.values())]
            # The page names the tap first, or the smaller picture where a tap is wanted.
            pair = pair if own != 2 else [pair[1], pair[0]]
            expected.setdefault(str(list(triple[own])), []).append(pair)
        found = page.evaluate(
            "(state) => { const { problem } = solve(state); const found = {};"
            "const walk = (point) => point.length < problem.axes.length"
            " ? range(resultSizes(problem)[point.length]).forEach((at) => walk([...point, at]))"
            " : (found['[' + point.join(', ') + ']'] = meetingsOf(problem, point));"
            "walk([]); return found; }",
            plain(state),
        )
        for point, pairs in found.items():
            assert sorted(pairs) == sorted(expected.get(point, [])), (state, point)
            compared += 1
    assert compared > 500


@pytest.mark.parametrize("state", [START, PLANE], ids=["line", "plane"])
def test_the_page_shows_its_answer(page: Any, state: State) -> None:  # noqa: ANN401 - playwright is optional
    """Shape, call, formulas and translations stand where people read them."""
    expected = show(page, state)
    shape = TIMES.join(map(str, expected["shape"]))

    assert page.inner_text("#shape") == shape
    assert page.inner_text("#call") == expected["call"]
    for line in expected["axes"][0]["lines"]:
        assert line[1] in page.inner_text("#formulas")
    for to, said in expected["translations"].items():
        page.click(f"#tab-{to}")
        assert page.inner_text("#code") == said["code"]
        assert page.get_attribute(f"#tab-{to}", "aria-selected") == "true"
        assert all(note[1:] in page.inner_text("#verdict") for note in said["notes"])
    assert page.locator("#picture [data-role=fine]").count() > 0


def test_controls_change_the_answer(page: Any) -> None:  # noqa: ANN401 - playwright is optional
    """Sliders by keyboard, numbers typed, words chosen; the link follows."""
    page.focus("#stride-0")
    page.keyboard.press("ArrowRight")
    wider = dataclasses.replace(START, stride=(3,))
    assert page.inner_text("#call") == answer(wider)["call"]
    page.fill("#size-0-number", "7")
    wider = dataclasses.replace(wider, size=(7,))
    assert page.inner_text("#call") == answer(wider)["call"]
    assert page.input_value("#size-0") == "7"
    page.select_option("#auto_pad", "same_upper")
    wider = dataclasses.replace(wider, auto_pad="same_upper")
    assert page.inner_text("#shape") == TIMES.join(map(str, answer(wider)["shape"]))
    page.select_option("#dialect", "onnx")
    assert page.input_value("#op") == "onnx.ConvTranspose"
    assert page.inner_text("#call").startswith("tconv.onnx.ConvTranspose(auto_pad='SAME_UPPER'")
    page.check("input[name=rank][value='2']")
    assert page.inner_text("#shape").count(TIMES) == 3


def test_every_operator_can_be_chosen(page: Any) -> None:  # noqa: ANN401 - playwright is optional
    """Each gives an answer and a picture at once, not an error."""
    for name, kind in page_operators().items():
        page.select_option("#dialect", name.partition(".")[0])
        page.select_option("#op", name)

        assert page.is_hidden("#error"), name
        assert page.inner_text("#headline").startswith(kind.title())
        assert page.locator("#picture svg").count() == 1


def test_a_link_holds_the_setting(page: Any, file: Path) -> None:  # noqa: ANN401 - playwright is optional
    """Opened elsewhere, it shows the same."""
    show(page, PLANE)
    link = page.url
    page.goto("about:blank")
    page.goto(link)

    assert "#op=onnx.ConvTranspose" in link
    assert page.evaluate("() => window.tconv.getState()") == plain(PLANE)
    assert page.inner_text("#call") == answer(PLANE)["call"]
    assert link.startswith(file.as_uri())


def test_a_bad_attribute_has_the_librarys_own_text(page: Any) -> None:  # noqa: ANN401 - playwright is optional
    """In an alert, in place of the picture; a sound setting brings that back."""
    for change in BAD:
        refusal = show(page, dataclasses.replace(START, **change))["error"]

        assert "\n  fix " in refusal
        assert page.text_content("#error") == refusal
        assert page.get_attribute("#error", "role") == "alert"
        assert page.is_hidden("#figure")
        show(page, START)
        assert page.is_hidden("#error")
        assert page.is_visible("#figure")


def test_a_broken_link_is_answered_in_words(page: Any, file: Path) -> None:  # noqa: ANN401 - playwright is optional
    """Numbers that are none are left out; words that are none are refused as the library does."""
    page.goto(f"{file.as_uri()}#op=nothing&stride=x&auto_pad=same_uper&groups=1e9&size=")
    page.reload()

    assert "did you mean 'same_upper'?" in page.inner_text("#error")


def test_the_picture_is_worked_by_keyboard_and_told_aloud(page: Any) -> None:  # noqa: ANN401 - playwright is optional
    """Arrow keys step through the result; a live region says what meets there."""
    page.focus("#picture")
    page.keyboard.press("Home")
    assert page.inner_text("#meeting").startswith(f"dst[0] = src[0] {TIMES} weights[1]")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#meeting").startswith("dst[1] = ")
    page.keyboard.press("End")
    assert page.inner_text("#meeting").startswith("dst[9] = ")
    assert page.get_attribute("#meeting", "aria-live") == "polite"
    page.click("#next")
    assert page.inner_text("#meeting").startswith("dst[0] = ")
    page.hover("[data-role=fine][data-point='4']")
    assert page.inner_text("#meeting").startswith("dst[4] = ")
    assert page.locator(".chosen").count() == 1
    page.focus("#tab-torch")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-onnx", "aria-selected") == "true"


def test_every_control_can_be_reached_and_has_a_name(page: Any) -> None:  # noqa: ANN401 - playwright is optional
    """Tab goes through all of them, with a focus that is seen."""
    show(page, PLANE)
    page.click("details summary")
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('input, select, button')]"
        ".filter((node) => !node.getAttribute('aria-label') && !node.textContent.trim()"
        " && !node.labels?.length).map((node) => node.outerHTML)"
    )
    wanted = page.evaluate(
        "() => [...document.querySelectorAll('input, select, button')]"
        ".filter((n) => n.getClientRects().length && n.tabIndex >= 0 && n.type !== 'radio').length"
    )
    page.evaluate("() => document.activeElement.blur()")
    page.evaluate("() => window.scrollTo(0, 0)")
    reached, outlined = set(), 0
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            "() => { const n = document.activeElement; const style = getComputedStyle(n);"
            "return [n.tagName + n.id + (n.dataset.copy ?? ''), style.outlineStyle !== 'none',"
            " n.matches('input, select, button')]; }"
        )
        if seen[2]:
            reached.add(seen[0])
            outlined += seen[1]

    assert unnamed == []
    assert len(reached) >= wanted
    assert outlined >= wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", [START, PLANE], ids=["line", "plane"])
def test_it_can_be_read_on_a_phone_in_light_and_dark(
    chromium: Any,  # noqa: ANN401 - playwright is optional
    file: Path,
    scheme: str,
    state: State,
) -> None:
    """Nothing runs off the side, targets are large enough, and every text has contrast."""
    phone = chromium.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    phone.goto(file.as_uri())
    show(phone, state)
    width = phone.evaluate("() => document.documentElement.scrollWidth")
    pale = [each for each in phone.evaluate(CONTRASTS) if each[1] < 4.5]
    small = phone.evaluate(
        "() => [...document.querySelectorAll('button, select, input[type=number]')]"
        ".filter((n) => n.getClientRects().length && n.getBoundingClientRect().height < 24).length"
    )
    paper = phone.evaluate("() => getComputedStyle(document.body).backgroundColor")
    phone.close()

    assert width <= 360
    assert pale == []
    assert small == 0
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) > 380) == (scheme == "light")


def test_it_needs_no_network(chromium: Any, file: Path) -> None:  # noqa: ANN401 - playwright is optional
    """It asks for nothing but itself, and names no other address."""
    asked: list[str] = []
    alone = chromium.new_page()
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(file.as_uri())
    alone.wait_for_selector("#picture svg")
    alone.close()
    addresses = set(re.findall(r"https?://[^\s\"'<>`]+", file.read_text(encoding="utf-8")))

    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_a_setting_and_its_call_belong_together() -> None:
    """From a setting to the call and back again, without a browser."""
    kept = 0
    for seed in range(200):
        state = draw_state(seed)
        if "error" in answer(state):
            continue
        op, shapes = call_of(state)
        again = state_of(operator_name(type(op)), op, shapes)
        kept += 1

        assert answer(again) == answer(state)
    assert kept > 100


def test_the_table_has_a_value_for_every_gap() -> None:
    """Checks name sentences that are there; a place that moved would be noticed here first."""
    found = table()
    places = {place for rule in found["rules"] for _, place in rule["checks"]}

    assert places <= set(found["sentences"])
    assert len(found["operators"]) == 16

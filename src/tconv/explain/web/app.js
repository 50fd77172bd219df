"use strict";
// The controls, the link and the picture, kept in step with each other.

const byId = (id) => document.getElementById(id);
const LISTS = [
  ["size", "input size", 1, 12], ["kernel", "window", 1, 7], ["stride", "stride", 1, 5],
  ["dilation", "dilation", 1, 4], ["pads_begin", "pads, begin", 0, 5], ["pads_end", "pads, end", 0, 5],
  ["output_padding", "output_padding", 0, 5], ["output_shape", "output_shape", 1, 24],
];
const USUAL = { size: 5, kernel: 3, stride: 2, dilation: 1, pads_begin: 1, pads_end: 1, output_padding: 0, output_shape: 9 };
const DIALECT_NAMES = { onednn: "oneDNN Graph", openvino: "OpenVINO", onnx: "ONNX", tconv: "torch (tconv's functions)" };
const FARTHEST = 9999;

let state = structuredClone(START);
let solved = null;
let chosen = null;
let tab = "torch";
let timer = null;
let alike = false; // one slider for both axes

const specOf = () => TABLE.operators[state.op];
const hasField = (name) => specOf().fields.some((field) => field.name === name);

// -- the link --------------------------------------------------------------------------

function linkOf(setting) {
  const parts = [];
  for (const [name, value] of Object.entries(setting)) {
    if (value === null || value === "") continue;
    parts.push(`${name}=${encodeURIComponent(Array.isArray(value) ? value.join(",") : value)}`);
  }
  return `#${parts.join("&")}`;
}

function fromLink(hash, setting) {
  const found = structuredClone(setting);
  const pairs = new URLSearchParams(hash.replace(/^#/, ""));
  if (TABLE.operators[pairs.get("op")]) found.op = pairs.get("op");
  if (pairs.has("op")) { found.output_shape = null; found.reading = ""; found.filter_format = ""; }
  for (const [name, text] of pairs) {
    if (!(name in START) || name === "op") continue;
    if (LISTS.some(([list]) => list === name)) {
      const numbers = text.split(",").slice(0, 2).map(Number);
      if (numbers.every(Number.isInteger)) found[name] = numbers.map(clamp);
    } else if (typeof START[name] === "number") {
      if (/^-?\d+$/.test(text)) found[name] = clamp(Number(text));
    } else {
      found[name] = text.slice(0, 40);
    }
  }
  return withRank(found, found.size.length);
}

const clamp = (number) => Math.max(-FARTHEST, Math.min(FARTHEST, number));

function withRank(setting, rank) {
  for (const [name] of LISTS) {
    const list = setting[name];
    if (list === null) continue;
    while (list.length < rank) list.push(list.length ? list[list.length - 1] : USUAL[name]);
    list.length = rank;
  }
  return setting;
}

// -- the controls ----------------------------------------------------------------------

function buildOperators() {
  if (!byId("dialect").length) {
    byId("dialect").append(...Object.entries(DIALECT_NAMES).map(([key, text]) => new Option(text, key)));
  }
  const { dialect } = specOf();
  byId("dialect").value = dialect;
  byId("op").replaceChildren(...Object.entries(TABLE.operators)
    .filter(([, spec]) => spec.dialect === dialect)
    .map(([name, spec]) => new Option(spec.name, name)));
  byId("op").value = state.op;
}

/** The operator of another dialect that asks for the same thing. */
function twinOf(dialect) {
  const { wanted } = specOf();
  const grouped = state.groups > 1;
  const own = Object.entries(TABLE.operators).filter(([, spec]) => spec.dialect === dialect);
  const rank = ([, spec]) => (spec.wanted === wanted ? 4 : 0)
    + (spec.stated === "required" || spec.name.startsWith("ConvTransposeBack") ? 0 : 2)
    + (spec.name.startsWith("Group") === grouped ? 1 : 0);
  return own.reduce((best, one) => (rank(one) > rank(best) ? one : best))[0];
}

/** The lists that mean something for this operator, by the names it gives them. */
function shownLists() {
  const spec = specOf();
  const explicit = isExplicit(state.auto_pad);
  return LISTS.filter(([name]) => {
    if (name === "pads_begin") return explicit;
    if (name === "pads_end") return explicit && spec.dialect !== "tconv";
    if (name === "output_padding") return hasField("output_padding");
    if (name === "output_shape") return state.output_shape !== null && spec.stated !== "never";
    return true;
  }).map(([name, title, low, high]) => {
    const words = {
      size: spec.wanted === "weights" ? `size of ${spec.given[0] === "fine" ? spec.inputs[0] : spec.inputs[1]}` : `size of ${spec.inputs[0]}`,
      kernel: "kernel size", pads_begin: spec.dialect === "tconv" ? "padding" : title,
      output_shape: spec.third && spec.third.endsWith("_shape") ? spec.third : title,
    };
    return [name, words[name] ?? title, low, high];
  });
}

function buildSliders() {
  const box = byId("sliders");
  const focused = document.activeElement?.id;
  box.replaceChildren();
  for (const [name, title, low, high] of shownLists()) {
    const shown = alike && state.size.length > 1 ? state[name].slice(0, 1) : state[name];
    shown.forEach((value, axis) => {
      const row = document.createElement("div");
      row.className = "slider";
      const id = `${name}-${axis}`;
      const note = shown.length > 1 ? `<small>axis ${axis + 1}</small>` : "";
      const spoken = shown.length > 1 ? `${title}, axis ${axis + 1}` : title;
      row.innerHTML = `<label class="name" for="${id}">${title}${note}</label>
        <input type="range" id="${id}" min="${low}" max="${high}" step="1" data-list="${name}" data-axis="${axis}" aria-label="${spoken}">
        <input type="number" id="${id}-number" step="1" data-list="${name}" data-axis="${axis}" aria-label="${spoken}, number">`;
      for (const input of row.querySelectorAll("input")) input.value = value;
      box.append(row);
    });
  }
  if (focused && byId(focused)) byId(focused).focus();
}

function selectField(name, title, options, value) {
  const id = `more-${name}`;
  const row = document.createElement("div");
  row.className = "field";
  row.innerHTML = `<label for="${id}">${title}</label>`;
  const select = document.createElement("select");
  select.id = id;
  select.dataset.word = name;
  for (const [key, text] of options) select.append(new Option(text, key));
  select.value = value;
  row.append(select);
  return row;
}

function numberField(name, title) {
  const row = document.createElement("div");
  row.className = "field";
  row.innerHTML = `<label for="more-${name}">${title}</label><input type="number" id="more-${name}" step="1" data-number="${name}">`;
  row.querySelector("input").value = state[name];
  return row;
}

function buildMore() {
  const spec = specOf(), rows = [];
  const focused = document.activeElement?.id;
  const grouped = hasField("groups") || hasField("group") || Object.values(spec.filters)[0].startsWith("g c");
  if (grouped) rows.push(numberField("groups", "groups"));
  const names = roleNames(spec);
  rows.push(numberField("x_channels", `channels a group, ${names.coarse}`));
  rows.push(numberField("y_channels", `channels a group, ${names.fine}`));
  rows.push(numberField("batch", "batch"));
  if (Object.keys(spec.data).length > 1) {
    rows.push(selectField("data_format", hasField("layout") ? "layout" : "data_format",
      Object.keys(spec.data).map((word) => [word, word]), state.data_format));
  }
  if (spec.format) {
    rows.push(selectField("filter_format", spec.format,
      [["", "default"], ...Object.keys(spec.filters).map((word) => [word, word])], state.filter_format));
  }
  if (hasField("reading")) {
    rows.push(selectField("reading", "reading",
      [["", "None (engine)"], ["engine", "engine"], ["document", "document"]], state.reading));
  }
  if (hasField("opset")) {
    rows.push(selectField("opset", "opset", [[22, "22"], [11, "11"], [1, "1"]], state.opset));
  }
  byId("more").replaceChildren(...rows);
  if (focused && byId(focused)) byId(focused).focus();
}

function buildControls() {
  const spec = specOf();
  buildOperators();
  document.querySelector("[data-for=alike]").hidden = state.size.length === 1;
  byId("alike").checked = alike;
  for (const radio of document.querySelectorAll("input[name=rank]")) {
    radio.checked = Number(radio.value) === state.size.length;
  }
  const field = spec.fields.find((each) => each.name === "auto_pad");
  const select = byId("auto_pad");
  select.replaceChildren(...spec.modes.map((mode) => new Option(mode, mode)));
  const known = field ? field.known[state.auto_pad.toLowerCase()] : state.auto_pad;
  if (!spec.modes.includes(known)) select.append(new Option(state.auto_pad, state.auto_pad));
  select.value = known ?? state.auto_pad;
  document.querySelector("[data-for=auto_pad]").hidden = spec.modes.length < 2;
  document.querySelector("[data-for=auto_pad] label").textContent = field ? "auto_pad" : "padding";
  document.querySelector("[data-for=stated]").hidden = spec.stated === "never";
  byId("stated").checked = state.output_shape !== null;
  buildSliders();
  buildMore();
}

/** Take what another operator means by the same setting. */
function changeOperator(name) {
  const before = specOf();
  state.op = name;
  const spec = specOf();
  const place = before.modes.indexOf(state.auto_pad);
  state.auto_pad = isExplicit(state.auto_pad) || place < 0 ? spec.modes[0]
    : spec.modes.find((mode) => mode.toLowerCase() === state.auto_pad.toLowerCase()) ?? spec.modes[0];
  state.reading = "";
  state.filter_format = "";
  if (spec.stated === "never") state.output_shape = null;
  if (spec.stated === "required" && state.output_shape === null) askForSize();
  if (!(state.data_format in spec.data)) state.data_format = "NCX";
  if (!hasField("output_padding")) state.output_padding = state.output_padding.map(() => 0);
  if (!hasField("opset")) state.opset = 22;
  const grouped = hasField("groups") || hasField("group") || Object.values(spec.filters)[0].startsWith("g c");
  if (!grouped) state.groups = 1;
}

/** Ask for the size that the windows give without being asked. */
function askForSize() {
  state.output_shape = state.size.map((size, axis) => {
    const explicit = isExplicit(state.auto_pad);
    const pads = explicit ? state.pads_begin[axis] + state.pads_end[axis] : 0;
    const natural = state.stride[axis] * (size - 1) + (state.kernel[axis] - 1) * state.dilation[axis] + 1;
    return Math.max(1, natural - pads + state.output_padding[axis]);
  });
}

// -- what is shown ---------------------------------------------------------------------

const escapeText = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

const areAlike = () => LISTS.every(([name]) => !state[name] || state[name].every((n) => n === state[name][0]));

function show({ rebuild = false } = {}) {
  alike = alike && areAlike() && state.size.length > 1;
  if (rebuild) buildControls();
  for (const input of document.querySelectorAll("[data-list]")) {
    const value = state[input.dataset.list]?.[Number(input.dataset.axis)];
    input.setAttribute("aria-invalid", "false");
    if (value !== undefined && document.activeElement !== input) input.value = value;
    if (input.type === "range") input.setAttribute("aria-valuetext", String(value));
  }
  history.replaceState(null, "", linkOf(state));
  const answer = answerOf(state);
  const wrong = "error" in answer;
  byId("error").hidden = !wrong;
  for (const id of ["figure", "headline"]) byId(id).hidden = wrong;
  for (const card of document.querySelectorAll(".card")) card.hidden = wrong;
  if (wrong) {
    if (byId("error").textContent !== answer.error) byId("error").textContent = answer.error;
    solved = null;
    stop();
    return;
  }
  byId("error").textContent = "";
  solved = solve(state);
  showHeadline(answer);
  showPicture();
  byId("call").textContent = answer.call;
  showFormulas(answer);
  showTranslation(answer);
  byId("live").textContent = byId("headline").textContent;
}

function showHeadline(answer) {
  const { spec } = solved;
  const inputs = spec.inputs.map((name, i) => `${name} <b>${answer.shapes[i].join("×")}</b>`).join(", ");
  byId("headline").innerHTML =
    `${escapeText(spec.title)}: ${inputs} → ${spec.result} <b id="shape">${answer.shape.join("×")}</b>`
    + ` <span class="quiet">pads ${answer.pads_begin.join(",")} at the beginning, ${answer.pads_end.join(",")} at the end</span>`;
}

function showFormulas(answer) {
  const goal = { fine: "Y", coarse: "X" }[solved.spec.wanted];
  byId("formulas").innerHTML = answer.axes.map((axis, i) => `<table>
    <caption>Spatial axis ${i + 1}: ${["X", "Y", "K", "s", "d", "op"].filter((letter) => letter in solved.letters[i])
      .map((letter) => `${letter} ${solved.letters[i][letter]}`).join(", ")}</caption>
    <tbody>${axis.lines.map(([letter, expression, filled, value, why]) =>
      `<tr${letter === goal ? ' class="goal"' : ""}><th scope="row">${letter}</th>
      <td class="code-cell">${escapeText(expression || "given")}</td><td class="code-cell">${escapeText(filled)}</td>
      <td class="value">${value}</td><td class="why">${escapeText(why)}</td></tr>`).join("")}</tbody></table>`).join("");
  const facts = [
    ...answer.axes.map((axis, i) => `Axis ${i + 1}: pads ${answer.pads_begin[i]} and ${answer.pads_end[i]}${axis.odd}.`),
    ...answer.readings.map((text) => `Reading: ${text}.`),
    `Cost: ${answer.flops.toLocaleString("en")} flops, ${answer.bytes.toLocaleString("en")} bytes in float32.`,
  ];
  byId("facts").replaceChildren(...facts.map((text) => {
    const item = document.createElement("li");
    item.textContent = text.replace(/\s+/g, " ");
    return item;
  }));
}

function showTranslation(answer) {
  const box = byId("tabs");
  if (!box.children.length) {
    for (const to of Object.keys(WRITERS)) {
      const button = document.createElement("button");
      button.type = "button";
      button.id = `tab-${to}`;
      button.dataset.tab = to;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", "translation");
      box.append(button);
    }
  }
  for (const button of box.children) {
    const own = answer.translations[button.dataset.tab];
    button.innerHTML = `${button.dataset.tab}<span class="mark" aria-hidden="true">${own?.exact ? "✓" : "≈"}</span>`;
    button.setAttribute("aria-label", `${button.dataset.tab}, ${own?.exact ? "one call" : "rewritten"}`);
    button.setAttribute("aria-selected", String(button.dataset.tab === tab));
    button.tabIndex = button.dataset.tab === tab ? 0 : -1;
  }
  byId("translation").setAttribute("aria-labelledby", `tab-${tab}`);
  const own = answer.translations[tab];
  byId("verdict").textContent = !own ? "Nothing to translate for an empty batch."
    : own.exact ? "One call says it." : `No equivalent call; rewritten exactly. ${own.notes.map((note) => note[0].toUpperCase() + note.slice(1)).join(" ")}`;
  byId("code").textContent = own?.code ?? "";
}

function showPicture() {
  const box = byId("picture");
  const width = Math.max(260, box.clientWidth || 600);
  box.innerHTML = solved.rank === 1 ? drawLine(solved, width) : drawPlane(solved, width);
  const sizes = resultSizes(solved.problem);
  const fits = chosen && chosen.length === sizes.length && chosen.every((at, i) => at < sizes[i]);
  if (!fits) chosen = sizes.map((size) => Math.min(Math.floor((size - 1) / 2), 9)); // always drawn
  showLegend();
  choose(chosen);
}

function showLegend() {
  const { axes } = solved.problem;
  const count = axes.reduce((total, axis) => total * axis.s, 1);
  const items = range(Math.min(count, 9)).map((number) => {
    const colour = phaseColour(number);
    const own = axes.length === 1 ? number : `${Math.floor(number / axes[1].s)}, ${number % axes[1].s}`;
    return `<li><span class="key" style="background:${colour};color:${inkOn(colour)}">${number}</span>phase ${own}</li>`;
  });
  if (count > 9) items.push(`<li>and ${count - 9} more</li>`);
  if (axes.some((axis) => axis.pb > 0 || endOf(axis) > 0)) items.push('<li><span class="key pad"></span>padding</li>');
  if (solved.values.some((each) => each.op > 0) && solved.spec.wanted === "fine") {
    items.push('<li><span class="key extra"></span>output_padding</li>');
  }
  byId("legend").innerHTML = items.join("");
}

function choose(point) {
  chosen = point;
  markChosen(byId("picture"), solved, point);
  const { head, terms, count } = meetingText(solved, point);
  const phase = solved.problem.wanted === "fine" ? ` (phase ${phaseOf(solved.problem, point)})` : "";
  byId("meeting").innerHTML = `<code>${escapeText(head + terms)}</code><br><span>${count} meeting${count === 1 ? "" : "s"}${phase}</span>`;
}

/** Go to the next or previous point of the result, in reading order. */
function step(by) {
  if (!solved) return;
  const sizes = resultSizes(solved.problem);
  const total = sizes.reduce((a, b) => a * b, 1);
  let place = chosen.reduce((number, at, i) => number * sizes[i] + at, 0);
  place = (place + by + total) % total;
  const point = [];
  for (const size of [...sizes].reverse()) { point.unshift(place % size); place = Math.floor(place / size); }
  choose(point);
}

function stop() {
  clearInterval(timer);
  timer = null;
  byId("play").textContent = "Play";
  byId("play").setAttribute("aria-pressed", "false");
  byId("meeting").setAttribute("aria-live", "polite");
}

function play() {
  if (timer) { stop(); return; }
  byId("play").textContent = "Pause";
  byId("play").setAttribute("aria-pressed", "true");
  byId("meeting").setAttribute("aria-live", "off"); // nobody can listen that fast
  timer = setInterval(() => step(1), 700);
}

// -- what people do --------------------------------------------------------------------

function listen() {
  byId("dialect").addEventListener("change", (event) => { changeOperator(twinOf(event.target.value)); show({ rebuild: true }); });
  byId("alike").addEventListener("change", (event) => {
    alike = event.target.checked;
    if (alike) for (const [name] of LISTS) if (state[name]) state[name].fill(state[name][0]);
    show({ rebuild: true });
  });
  byId("op").addEventListener("change", (event) => { changeOperator(event.target.value); show({ rebuild: true }); });
  byId("auto_pad").addEventListener("change", (event) => { state.auto_pad = event.target.value; show({ rebuild: true }); });
  byId("rank-choice").addEventListener("change", (event) => {
    withRank(state, Number(event.target.value));
    alike = areAlike();
    chosen = null;
    show({ rebuild: true });
  });
  byId("sliders").addEventListener("input", (event) => {
    const { list, axis } = event.target.dataset;
    const number = Number(event.target.value);
    const sound = event.target.value !== "" && Number.isInteger(number);
    event.target.setAttribute("aria-invalid", String(!sound));
    if (!sound) return;
    if (alike) state[list].fill(clamp(number)); else state[list][Number(axis)] = clamp(number);
    show();
  });
  byId("stated").addEventListener("change", (event) => {
    if (event.target.checked) askForSize(); else state.output_shape = null;
    show({ rebuild: true });
  });
  byId("more").addEventListener("input", (event) => {
    const { number, word } = event.target.dataset;
    if (number && event.target.value !== "" && Number.isInteger(Number(event.target.value))) {
      state[number] = clamp(Number(event.target.value));
    } else if (word) {
      state[word] = word === "opset" ? Number(event.target.value) : event.target.value;
    }
    show();
  });
  const picture = byId("picture");
  const point = (event) => {
    const found = event.target.closest?.("[data-role]");
    if (solved && found && found.dataset.role === solved.problem.wanted) choose(found.dataset.point.split(",").map(Number));
  };
  picture.addEventListener("pointerover", point);
  picture.addEventListener("click", point);
  picture.addEventListener("keydown", (event) => {
    if (!solved) return;
    const sizes = resultSizes(solved.problem);
    const row = sizes.length > 1 ? sizes[1] : 1;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[event.key];
    if (by !== undefined) { event.preventDefault(); step(by); }
    if (event.key === "Home") { event.preventDefault(); choose(sizes.map(() => 0)); }
    if (event.key === "End") { event.preventDefault(); choose(sizes.map((size) => size - 1)); }
  });
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("play").addEventListener("click", play);
  byId("tabs").addEventListener("click", (event) => {
    const button = event.target.closest("[data-tab]");
    if (button) { tab = button.dataset.tab; show(); button.focus(); }
  });
  byId("tabs").addEventListener("keydown", (event) => {
    const all = Object.keys(WRITERS);
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    tab = all[(all.indexOf(tab) + by + all.length) % all.length];
    show();
    byId(`tab-${tab}`).focus();
  });
  document.addEventListener("click", (event) => {
    const id = event.target.dataset?.copy;
    if (id) copy(byId(id).textContent, event.target);
  });
  byId("copy-link").addEventListener("click", (event) => copy(location.href, event.target));
  byId("reset").addEventListener("click", () => { state = structuredClone(START); chosen = null; show({ rebuild: true }); });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { state = fromLink(location.hash, START); show({ rebuild: true }); });
  let resized = null;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => solved && showPicture(), 120); });
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea"); // pages opened as files have no clipboard
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
  byId("live").textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

byId("version").textContent = TABLE.version;
if (location.hash.length > 1) state = fromLink(location.hash, START);
alike = areAlike();
listen();
show({ rebuild: true });
window.tconv = { answerOf, setState: (next) => { state = structuredClone(next); chosen = null; show({ rebuild: true }); }, getState: () => state };

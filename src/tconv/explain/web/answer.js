"use strict";
// The answer to a setting: the call, its sizes step by step, or the refusal.

const isExplicit = (mode) => ["none", "explicit", "notset", ""].includes(mode.toLowerCase());

function layoutShape(layout, sizes, spatial) {
  return layout.split(" ").flatMap((word) =>
    word === "x" ? spatial : [[...word].reduce((total, letter) => total * sizes[letter], 1)]);
}

/** What the controls say, as attributes in the order of the operator's fields. */
function attributesOf(spec, state) {
  const explicit = isExplicit(state.auto_pad);
  const said = {
    strides: state.stride, stride: state.stride,
    dilations: state.dilation, dilation: state.dilation,
    auto_pad: state.auto_pad,
    groups: state.groups, group: state.groups,
    data_format: state.data_format, layout: state.data_format,
    padding: explicit ? state.pads_begin : state.auto_pad,
  };
  if (explicit) {
    said.pads_begin = state.pads_begin;
    said.pads_end = state.pads_end;
    said.pads = [...state.pads_begin, ...state.pads_end];
  }
  if (state.output_padding.some((number) => number !== 0)) said.output_padding = state.output_padding;
  if (state.filter_format) said.weights_format = said.filter_format = state.filter_format;
  if (state.reading) said.reading = state.reading;
  if (state.opset !== 22) said.opset = state.opset;
  if (spec.third !== "output_shape" || spec.dialect === "onednn") {
    said.output_shape = said.dst_shape = state.output_shape;
  }
  if (spec.wanted === "weights") {
    said.weights_shape = layoutShape(filterLayout(spec, state), sizesOf(state), state.kernel);
  }
  return spec.fields
    .filter((field) => said[field.name] !== undefined && said[field.name] !== null)
    .map((field) => [field, said[field.name]]);
}

function canonical(field, value) {
  if (typeof value !== "string") return value;
  return field.known[value.toLowerCase()] ?? value;
}

function operatorText(spec, attributes) {
  const shown = attributes
    .map(([field, value]) => [field, canonical(field, value)])
    .filter(([field, value]) => Array.isArray(value) || value !== field.default)
    .map(([field, value]) => `${field.name}=${pyText(value)}`);
  return `${spec.dialect}.${spec.name}(${shown.join(", ")})`;
}

function callText(spec, attributes, third) {
  const given = [...spec.inputs, ...(third ? [tupleText(third)] : [])].join(", ");
  const text = operatorText(spec, attributes);
  if (spec.dialect !== "tconv") return `tconv.${text}(${given})`;
  const [name, rest] = [text.slice(0, text.indexOf("(")), text.slice(text.indexOf("(") + 1)];
  return `${name}(${given}${rest === ")" ? "" : ", "}${rest}`;
}

const sizesOf = (state) =>
  ({ n: state.batch, g: state.groups, c: state.x_channels, f: state.y_channels });

function filterLayout(spec, state) {
  if (!spec.format) return spec.filters[""];
  const usual = spec.fields.find((field) => field.name === spec.format).default;
  return spec.filters[(state.filter_format || usual).toUpperCase()];
}

function ruleOf(spec, state, reading, opset) {
  const field = spec.fields.find((each) => each.name === "auto_pad");
  let mode = field ? canonical(field, state.auto_pad) : state.auto_pad;
  if (!field && isExplicit(mode)) mode = "none";
  const stated = state.output_shape !== null && spec.stated !== "never" ? 1 : 0;
  const key = [mode, stated, reading === "document" ? 1 : 0, opset < 11 ? 1 : 0].join("|");
  return TABLE.rules[spec.rules[key]];
}

/** The letters of one axis that sizes and attributes give. */
function lettersOf(spec, state, axis) {
  const values = {
    K: state.kernel[axis], s: state.stride[axis], d: state.dilation[axis],
    op: spec.fields.some((field) => field.name === "output_padding") ? state.output_padding[axis] : 0,
  };
  const explicit = isExplicit(state.auto_pad);
  values.pb = explicit ? state.pads_begin[axis] : 0;
  values.pe = explicit ? state.pads_end[axis] : 0;
  if (spec.dialect === "tconv") values.pe = values.pb;
  if (spec.wanted === "fine") {
    values.X = state.size[axis];
    if (state.output_shape !== null && spec.stated !== "never") values.Y = state.output_shape[axis];
  } else {
    values.Y = state.size[axis];
  }
  return values;
}

function evaluateRule(rule, letters) {
  const values = { ...letters };
  for (const [letter, expression] of rule.formulas) {
    if (expression) values[letter] = compileFormula(expression)(values);
  }
  return values;
}

/** Answer a setting as tconv.explain.answer does; throws a Refusal for what the library refuses. */
function solve(state) {
  const spec = TABLE.operators[state.op];
  const attributes = attributesOf(spec, state);
  for (const field of spec.fields) {
    const found = attributes.find(([each]) => each === field);
    if (found) checkAttribute(spec, field, found[1]);
  }
  const rank = state.size.length, sizes = sizesOf(state);
  const rule = ruleOf(spec, state, state.reading, state.opset);
  const letters = state.size.map((_, axis) => lettersOf(spec, state, axis));
  const layouts = {
    ...(spec.data[state.data_format.toUpperCase()] ?? spec.data.NCX), weights: filterLayout(spec, state),
  };
  const valuesOf = () => letters.map((each) => evaluateRule(rule, each));
  const spatial = { coarse: state.size, fine: state.size, weights: state.kernel };
  if (spec.wanted === "weights") spatial.coarse = valuesOf().map((each) => Math.max(each.X, 1));
  const shapes = spec.given.map((role) => layoutShape(layouts[role], sizes, spatial[role]));
  shapes.forEach((shape, i) => checkShape(spec, spec.inputs[i], shape, spec.given[i] !== "weights"));
  const third = spec.dialect === "openvino" && spec.third && state.output_shape !== null
    ? state.output_shape : null;
  if (third) checkRequest(spec, spec.third, third, true);
  const operands = spec.given.map((role, i) => ({
    role, name: spec.inputs[i], shape: shapes[i], layout: layouts[role], spatial: spatial[role] }));
  if (spec.wanted === "weights") {
    operands.push({ role: "weights", name: spec.third, layout: layouts.weights,
      shape: layoutShape(layouts.weights, sizes, state.kernel), spatial: state.kernel });
  }
  const notes = spec.fields.filter((field) => /^groups?$/.test(field.name) && state.groups !== 1)
    .map((field) => [field.name, String(state.groups)]);
  if (third) notes.push([spec.third, tupleText(third)]);
  checkAsked(spec, state, operands, notes, third);
  const values = valuesOf();
  values.forEach((each, axis) => checkAxis(spec, rule, each, axis, operands, notes));
  const fine = values.map((each) => each.Y), coarse = values.map((each) => each.X);
  const axes = values.map((each) =>
    ({ Y: each.Y, X: spec.wanted === "weights" ? Math.max(each.X, 1) : each.X,
       K: each.K, s: each.s, d: each.d, pb: each.pb }));
  const all = { fine, coarse, weights: state.kernel };
  const problem = { wanted: spec.wanted, sizes, axes, layouts };
  return {
    spec, state, attributes, rule, values, shapes, third, problem, letters,
    shape: layoutShape(layouts[spec.wanted], sizes, all[spec.wanted]),
    pads_begin: values.map((each) => each.pb), pads_end: values.map((each) => each.pe), rank,
  };
}

/** Refuse a size that is missing or empty, where the operator must be told. */
function checkAsked(spec, state, operands, notes, third) {
  if (spec.stated === "required") {
    const name = spec.third;
    if (state.output_shape === null) {
      refuseCall(spec, "gradients._ConvolutionGradient._asked", operands, notes, { name });
    }
    checkRequest(spec, name, state.output_shape, true);
    checkRequest(spec, name, state.output_shape, false);
  } else if (third) {
    checkRequest(spec, spec.third, third, false);
  }
}

function checkAxis(spec, rule, values, axis, operands, notes) {
  const nameOf = (role) => operands.find((each) => each.role === role)?.name
    ?? notes.map(([name]) => name).find((name) => name.endsWith("_shape")) ?? "the result";
  for (const [condition, place] of rule.checks) {
    if (place.endsWith("_check_count")) continue; // the page makes the two sizes fit
    if (compileFormula(condition)(values)) continue;
    const bare = "Y1" in values;
    const { E, s, d, op, pb, pe, K } = values;
    const padded = (bare ? values.Y1 : values.Y) + pb + pe;
    const extra = op && !bare ? `, output_padding ${op}` : "";
    const shown = [[`axis ${axis + 1}`,
      `window ${K}, stride ${s}, dilation ${d}, pads ${pb} and ${pe}${extra}`]];
    refuseCall(spec, place, operands, notes, {
      weights: nameOf("weights"), data: nameOf("fine"), "call.name(Operand.FINE)": nameOf("fine"),
      "line.span": E, "line.index + 1": axis + 1, padded, "line.span - padded": E - padded,
      size: values.Y, "1 - size": 1 - values.Y,
      "line.extra": op, "line.stride": s, "line.dilation": d, "line.fine": values.Y,
      "max(line.stride, line.dilation)": Math.max(s, d),
      whole: values.whole, "whole + line.stride": values.whole + s,
      "self.third": spec.third, asked: values.Y, natural: values.natural, last: values.last,
      "last >= 1": values.last >= 1, "max(natural, 1)": Math.max(values.natural, 1),
      "line.asked": values.Y, largest: values.most,
    }, place.startsWith("padding.") ? shown : []);
  }
}

function oddOne(values, rule) {
  if (!rule.formulas.some(([letter]) => letter === "total")) return "";
  if (values.pb === values.pe) return TABLE.odd.even;
  return values.pb < values.pe ? TABLE.odd.end : TABLE.odd.begin;
}

const MOST_LISTED = 13;

function phasesOf({ Y, K, s, d, pb }) {
  const found = [];
  for (let first = 0; first < Math.min(s, Y, MOST_LISTED); first++) {
    const number = (first + pb) % s;
    const points = [], taps = [];
    for (let y = first; y < Y && points.length < MOST_LISTED; y += s) points.push(y);
    for (let t = 0; t < K && taps.length < MOST_LISTED; t++) if ((d * t) % s === number) taps.push(t);
    found.push([number, points, taps]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}

/** How many pairs of a coarse point and a tap meet inside the fine grid. */
function meetings({ Y, X, K, s, d, pb }) {
  let count = 0;
  for (let t = 0; t < K; t++) {
    const shift = d * t - pb;
    const first = Math.max(0, Math.ceil(-shift / s));
    const last = Math.min(X - 1, Math.floor((Y - 1 - shift) / s));
    count += Math.max(0, last - first + 1);
  }
  return count;
}

function readingsOf(solved) {
  const { spec, state } = solved;
  const has = (name) => spec.fields.some((field) => field.name === name);
  const say = (kind, values) => TABLE.readings[kind].replace(/\{(\w+)\}/g, (_, gap) => values[gap]);
  let used, other, rules;
  if (has("reading")) {
    used = state.reading || "engine";
    other = used === "engine" ? "document" : "engine";
    rules = [used, other].map((each) => ruleOf(spec, state, each, state.opset));
  } else if (has("opset") && spec.wanted === "fine") {
    [used, other] = state.opset >= 11 ? ["opset 11", "opset 1"] : ["opset 1", "opset 11"];
    rules = [used, other].map((each) => ruleOf(spec, state, "", Number(each.slice(6))));
  } else {
    return [say("one", { document: spec.document })];
  }
  const texts = rules.map((rule) => {
    const values = solved.letters.map((each) => evaluateRule(rule, each));
    return say("pads", {
      begin: tupleText(values.map((each) => each.pb)), end: tupleText(values.map((each) => each.pe)) });
  });
  if (texts[0] === texts[1]) {
    return [say("same", { used, how: TABLE.readings[used], other, pads: texts[0] })];
  }
  return [["used", used, 0], ["other", other, 1]].map(([role, each, i]) =>
    say(role, { used: each, how: TABLE.readings[each], pads: texts[i] }));
}

/** The whole answer as plain data, to be compared with the library's. */
function answerOf(state) {
  let solved;
  try {
    solved = solve(state);
  } catch (error) {
    if (error instanceof Refusal) return { error: error.message };
    throw error;
  }
  const { spec, rule, values, problem, shape } = solved;
  const { sizes, axes } = problem;
  const spatial = { coarse: axes.map((a) => a.X), fine: axes.map((a) => a.Y), weights: axes.map((a) => a.K) };
  const cells = Object.entries(spatial).map(([role, each]) =>
    layoutShape(problem.layouts[role], sizes, each).reduce((a, b) => a * b, 1));
  return {
    call: callText(spec, solved.attributes, solved.third),
    shapes: [...solved.shapes, ...(solved.third ? [solved.third] : [])],
    shape,
    pads_begin: solved.pads_begin,
    pads_end: solved.pads_end,
    axes: values.map((each, axis) => ({
      lines: rule.formulas.map(([letter, expression, why]) =>
        [letter, expression, fillIn(expression, each), each[letter], why]),
      odd: oddOne(each, rule),
      phases: phasesOf(axes[axis]),
    })),
    readings: readingsOf(solved),
    flops: 2 * sizes.n * sizes.g * sizes.c * sizes.f * axes.reduce((t, a) => t * meetings(a), 1),
    bytes: 4 * cells.reduce((a, b) => a + b, 0),
    translations: translations(problem, spec),
  };
}

"use strict";
// Refusals in the library's own words: its sentences are in the table, the numbers are put in here.

class Refusal extends Error {}

const tupleText = (numbers) =>
  `(${numbers.map(pyText).join(", ")}${numbers.length === 1 ? "," : ""})`;
const listText = (numbers) => `[${numbers.map(pyText).join(", ")}]`;

/** Print a value as Python does: arrays are tuples here. */
function pyText(value) {
  if (Array.isArray(value)) return tupleText(value);
  if (value === null || value === undefined) return "None";
  return typeof value === "string" ? `'${value}'` : String(value);
}

function sentence(part, values) {
  if (typeof part !== "string") return sentence(values[part.if] ? part.then : part.else, values);
  return part.replace(/\{([^}]*)\}/g, (_, gap) => {
    if (!(gap in values)) throw new Error(`nothing to put into {${gap}} of: ${part}`);
    return values[gap];
  });
}

/** The message of an error: its operator, what is wrong, what was given, the rule and the fix. */
function messageText(title, wrong, got, rule, fix) {
  const lines = [...got, ["rule", rule], ["fix", fix]];
  const width = Math.max(...lines.map(([name]) => name.length));
  const body = lines.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`);
  return [`${title}: ${wrong}`, ...body].join("\n");
}

function refuseAttribute(spec, place, name, value, values) {
  const parts = TABLE.sentences[place];
  const all = { name, "shown(value)": value, ...values };
  throw new Refusal(messageText(
    spec.title, sentence(parts.wrong, all), [[name, value]],
    `${sentence(parts.rule, all)}   (attribute ${name})`, sentence(parts.fix, all)));
}

/** Refuse an attribute as the library's parsers do. */
function checkAttribute(spec, field, value) {
  const { name, words, known, choices, least } = field;
  if (choices.length && !choices.includes(value)) {
    const listed = choices.map(pyText).join(", ");
    refuseAttribute(spec, "attributes.choice.parse", name, pyText(value), { listed });
  }
  if (typeof value === "string") {
    if (choices.length || value.toLowerCase() in known) return;
    if (!words.length) {
      refuseAttribute(spec, "attributes.integer.parse", name, pyText(value), {
        minimum: least, "max(minimum, 1)": Math.max(least, 1) });
    }
    const near = nearest(value, Object.keys(known));
    refuseAttribute(spec, "attributes.word.parse", name, pyText(value), {
      listed: words.join(", "), near, "known[near]": pyText(known[near]) });
  }
  if (least === null || value === null) return;
  const list = Array.isArray(value);
  const numbers = list ? value : [value];
  const complain = (number, minimum) => refuseAttribute(
    spec, "attributes._check_range#2", name, list ? listText(value) : String(value), {
      "isinstance(value, Sequence | np.ndarray)": list, number, minimum,
      kind: minimum ? "positive" : "non-negative" });
  for (const number of numbers) if (number < least) complain(number, least);
  if (name === "output_shape" || name === "dst_shape") {
    // The shape of a result: its first size alone may be an empty batch.
    for (const number of numbers.slice(1)) if (number < 1) complain(number, 1);
  }
}

/** The known word most like a mistyped one: the ratio of matching letters, 0.5 at least. */
function nearest(text, words) {
  let best = null, most = 0.5;
  for (const word of words) {
    const ratio = similarity(word, text.toLowerCase());
    if (ratio > most || (ratio === most && (best === null || word > best))) [best, most] = [word, ratio];
  }
  return best;
}

function similarity(a, b) {
  const matches = (la, ha, lb, hb) => {
    let size = 0, i0 = la, j0 = lb;
    for (let i = la; i < ha; i++) {
      for (let j = lb; j < hb; j++) {
        let k = 0;
        while (i + k < ha && j + k < hb && a[i + k] === b[j + k]) k++;
        if (k > size) { size = k; i0 = i; j0 = j; }
      }
    }
    if (!size) return 0;
    return size + matches(la, i0, lb, j0) + matches(i0 + size, ha, j0 + size, hb);
  };
  return a.length + b.length ? (2 * matches(0, a.length, 0, b.length)) / (a.length + b.length) : 1;
}

function checkShape(spec, name, shape, batched) {
  shape.forEach((size, place) => {
    if (size < 0) refuseShape(spec, "shapes.parse_shape#2", name, shape, { size });
    if (size === 0 && (place > 0 || !batched)) {
      refuseShape(spec, "shapes.parse_shape#3", name, shape, { name });
    }
  });
}

function checkRequest(spec, name, shape, batched) {
  shape.forEach((size, place) => {
    if (size < (batched && place === 0 ? 0 : 1)) {
      refuseShape(spec, "shapes.check_request", name, shape, { size, name });
    }
  });
}

function refuseShape(spec, place, name, shape, values) {
  const parts = TABLE.sentences[place];
  throw new Refusal(messageText(
    spec.title, `${name} ${sentence(parts.wrong, values)}`, [[name, tupleText(shape)]],
    sentence(parts.rule, values), sentence(parts.fix, values)));
}

/** Refuse a call, with its operands and their axes in columns. */
function refuseCall(spec, place, operands, notes, values, show = []) {
  const parts = TABLE.sentences[place];
  const width = Math.max(...operands.map((each) => tupleText(each.shape).length));
  const got = operands.map((each) => [
    each.name, `${tupleText(each.shape).padEnd(width)}   ${axesText(spec, each)}`]);
  throw new Refusal(messageText(
    spec.title, sentence(parts.wrong, values), [...got, ...notes, ...show],
    `${sentence(parts.rule, values)}   (${spec.document})`, sentence(parts.fix, values)));
}

function axesText(spec, operand) {
  const words = spec.words[operand.role];
  return operand.layout.split(" ").flatMap((word) =>
    word === "x" ? operand.spatial.map((_, i) => `${words.x}${i + 1}`) : [words[word]]
  ).join(" ");
}

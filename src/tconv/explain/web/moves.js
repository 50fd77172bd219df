"use strict";
// What stands around a call: axes moved, zeros added, points cut off (tconv/translation/steps.py,
// fit.py, ask.py and around.py), and its text (write.py).

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function moves(source, target, sizes, spatial) {
  const alone = sizes.g === 1;
  const words = (layout) => layout.split(" ")
    .map((word) => (alone && word.length > 1 ? word.replace("g", "") : word));
  const have = words(source), want = words(target);
  if (same([...have].sort(), [...want].sort())) return permute(have, want, spatial.length);
  const shape = layoutShape(source, sizes, spatial), result = layoutShape(target, sizes, spatial);
  const letters = have.flatMap((word) => [...word]).filter((letter) => !(alone && letter === "g"));
  const wanted = want.flatMap((word) => [...word]);
  const split = letters.flatMap((letter) => (letter === "x" ? spatial : [sizes[letter]]));
  const turn = permute(letters, wanted, spatial.length);
  if (!turn.length) return same(result, shape) ? [] : [["reshape", result]];
  return [
    ...(same(split, shape) ? [] : [["reshape", split]]), ...turn,
    ...(want.length === wanted.length ? [] : [["reshape", result]]),
  ];
}

function permute(have, want, rank) {
  const places = {};
  let next = 0;
  for (const word of have) {
    places[word] = Array.from({ length: word === "x" ? rank : 1 }, () => next++);
  }
  const order = want.flatMap((word) => places[word]);
  return order.every((place, i) => place === i) ? [] : [["permute", order]];
}

const spanOf = (axis) => (axis.K - 1) * axis.d + 1;
const wholeOf = (axis) => axis.s * (axis.X - 1) + spanOf(axis);
const endOf = (axis) => wholeOf(axis) - axis.pb - axis.Y;
const fit = (begin, end, extra, grow = [0, 0], crop = [0, 0]) => ({ begin, end, extra, grow, crop });
const isBare = (each) => [...each.grow, ...each.crop].every((number) => number === 0);

function gatherFit(axis, begin, end, grow = [0, 0]) {
  const pads = begin + end + grow[0] + grow[1];
  const count = Math.floor((axis.Y + pads - spanOf(axis)) / axis.s) + 1;
  return fit(begin, end, 0, grow, [0, count - axis.X]);
}

function freeFit(axis, wanted, mostExtra = Infinity) {
  const begin = axis.pb, end = endOf(axis);
  if (wanted !== "fine") return gatherFit(axis, begin, Math.max(end, 0));
  const extra = Math.max(-end, 0);
  if (extra <= mostExtra) return fit(begin, Math.max(end, 0), extra);
  return fit(0, 0, 0, [0, extra], [begin, 0]);
}

function symmetricFit(axis, wanted) {
  const begin = axis.pb, end = endOf(axis);
  if (wanted !== "fine") {
    const alike = gatherFit(axis, begin, begin);
    return isBare(alike) ? alike : gatherFit(axis, 0, 0, [begin, Math.max(end, 0)]);
  }
  const limit = Math.max(axis.s, axis.d);
  if (begin - end >= 0 && begin - end < limit) return fit(begin, begin, begin - end);
  if (end >= 0) {
    const both = Math.min(begin, end);
    return fit(both, both, 0, [0, 0], [begin - both, end - both]);
  }
  if (-end >= limit) return fit(0, 0, 0, [0, -end], [begin, 0]);
  const both = Math.min(begin, limit - 1 + end);
  return fit(both, both, both - end, [0, 0], [begin - both, 0]);
}

function unpaddedFit(axis, wanted) {
  const begin = axis.pb, end = endOf(axis);
  if (wanted !== "fine") return gatherFit(axis, 0, 0, [begin, Math.max(end, 0)]);
  const spare = end + Math.max(axis.s - spanOf(axis), 0);
  return fit(0, 0, 0, [0, Math.max(-spare, 0)], [begin, Math.max(spare, 0)]);
}

function isSame(axes, wanted) {
  return axes.every((axis) => {
    const last = wanted === "fine" ? axis.s : axis.Y % axis.s || axis.s;
    const alike = wanted === "fine" ? axis.Y === axis.s * axis.X : axis.X === Math.ceil(axis.Y / axis.s);
    return alike && Math.floor(Math.max(spanOf(axis) - last, 0) / 2) === axis.pb;
  });
}

/** The gather that computes a gradient by weights: taps and windows change places. */
function asGather(ask) {
  const swap = (layout) => layout.replace(/[nf]/g, (letter) => (letter === "n" ? "f" : "n"));
  const { sizes, layouts, axes } = ask.problem;
  return {
    names: { fine: ask.names.fine, weights: ask.names.coarse, coarse: ask.names.weights },
    problem: {
      wanted: "coarse",
      sizes: { ...sizes, n: sizes.f, f: sizes.n },
      axes: axes.map((axis) => ({ ...axis, X: axis.K, K: axis.X, s: axis.d, d: axis.s })),
      layouts: {
        fine: swap(layouts.fine), weights: swap(layouts.coarse), coarse: swap(layouts.weights) },
    },
  };
}

const each = (ask, letter) => ask.problem.axes.map((axis) => axis[letter]);
const dataOf = (ask) => (ask.problem.wanted === "fine" ? "coarse" : "fine");

function spatialOf(ask, role) {
  return each(ask, { coarse: "X", fine: "Y", weights: "K" }[role]);
}

/** The inputs of a call with what is done to each, and what is done to its result. */
function around(ask, layouts, fits) {
  const { wanted, sizes, layouts: own } = ask.problem;
  const given = wanted === "weights" ? ["fine", "coarse"] : [dataOf(ask), "weights"];
  const scatter = wanted === "fine";
  const step = (kind, layout, pairs) => (pairs.some((pair) => pair[0] || pair[1])
    ? [[kind, layout.split(" ").flatMap((word) => (word === "x" ? pairs : [[0, 0]]))]] : []);
  const grow = fits.map((one) => one.grow), crop = fits.map((one) => one.crop);
  return {
    inputs: given.map((role) => [ask.names[role], [
      ...moves(own[role], layouts[role], sizes, spatialOf(ask, role)),
      ...(role === "fine" && !scatter ? step("pad", layouts[role], grow) : []),
    ]]),
    after: [
      ...(scatter ? step("pad", layouts[wanted], grow) : []),
      ...step("crop", layouts[wanted], crop),
      ...moves(layouts[wanted], own[wanted], sizes, spatialOf(ask, wanted)),
    ],
    result: ask.names[wanted],
  };
}

/** The expression that does the steps to what a text stands for. */
function write(language, steps, text) {
  const words = TABLE.languages[language];
  const put = (template, values) => template.replace(/\{(\w+)\}/g, (_, gap) => values[gap]);
  for (const [kind, numbers] of steps) {
    if (kind === "spread") {
      numbers.forEach(([size, by], axis) => {
        if (by > 1 && size > 1) text = put(words.insert, { x: text, size, by: by - 1, axis });
      });
      continue;
    }
    const values = { x: text, tuple: tupleText(numbers), list: listText(numbers) };
    if (kind === "pad" || kind === "crop") {
      const first = numbers.findIndex((pair) => pair[0] || pair[1]);
      values.slices = numbers.map(([b, e]) => `${b || ""}:${e ? -e : ""}`).join(", ");
      values.last_first = tupleText(numbers.slice(first).reverse().flat());
      values.begins = listText(numbers.map((pair) => pair[0]));
      values.ends = listText(numbers.map((pair) => pair[1]));
      values.less_begins = listText(numbers.map((pair) => -pair[0] || 0));
      values.less_ends = listText(numbers.map((pair) => -pair[1] || 0));
    }
    text = put(words[kind], values);
  }
  return text;
}

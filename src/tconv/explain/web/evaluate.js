"use strict";
// Formulas of the table: + - * // % max or, and comparisons in checks; whole numbers only.

const TOKEN = /\s*(\d+|[A-Za-z]\w*|\/\/|<=|>=|==|!=|[-+*%(),<>])/y;
const parsed = new Map();

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text);
    if (!match) throw new Error(`not a formula: ${text}`);
    found.push(match[1]);
  }
  return found;
}

/** Return a function of the letters' values. */
function compileFormula(text) {
  if (parsed.has(text)) return parsed.get(text);
  const list = tokens(text);
  let at = 0;
  const take = (...kinds) => (kinds.includes(list[at]) ? list[at++] : null);

  function atom() {
    if (take("-")) { const inner = atom(); return (v) => -inner(v); }
    if (take("(")) { const inner = either(); take(")"); return inner; }
    const word = list[at++];
    if (word === "max") {
      take("(");
      const parts = [either()];
      while (take(",")) parts.push(either());
      take(")");
      return (v) => Math.max(...parts.map((part) => part(v)));
    }
    if (/^\d/.test(word)) { const number = Number(word); return () => number; }
    return (v) => {
      if (!(word in v)) throw new Error(`${word} has no value in: ${text}`);
      return v[word];
    };
  }
  function chain(inner, signs) {
    return () => {
      let left = inner();
      for (let sign = take(...Object.keys(signs)); sign; sign = take(...Object.keys(signs))) {
        const first = left, second = inner(), apply = signs[sign];
        left = (v) => apply(first(v), second(v));
      }
      return left;
    };
  }
  const product = chain(atom, {
    "*": (a, b) => a * b,
    "//": (a, b) => Math.floor(a / b),
    "%": (a, b) => a - b * Math.floor(a / b),
  });
  const sum = chain(product, { "+": (a, b) => a + b, "-": (a, b) => a - b });
  const COMPARE = {
    "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "<": (a, b) => a < b,
    ">": (a, b) => a > b, "==": (a, b) => a === b, "!=": (a, b) => a !== b,
  };
  function comparison() {
    const terms = [sum()], signs = [];
    for (let sign = take(...Object.keys(COMPARE)); sign; sign = take(...Object.keys(COMPARE))) {
      signs.push(COMPARE[sign]);
      terms.push(sum());
    }
    if (!signs.length) return terms[0];
    return (v) => signs.every((sign, i) => sign(terms[i](v), terms[i + 1](v)));
  }
  function either() {
    const parts = [comparison()];
    while (take("or")) parts.push(comparison());
    if (parts.length === 1) return parts[0];
    return (v) => parts.reduce((found, part) => found || part(v), 0);
  }
  const whole = either();
  if (at !== list.length) throw new Error(`not a formula: ${text}`);
  parsed.set(text, whole);
  return whole;
}

function fillIn(expression, values) {
  return expression.replace(/[A-Za-z]\w*/g, (name) => (name in values ? values[name] : name));
}

"use strict";
// The picture: both grids, the window, padding and phases; one point of the result can be chosen.

const MOST_DRAWN = 48; // points of an axis

const range = (count) => Array.from({ length: Math.max(count, 0) }, (_, i) => i);

/** Every (tap, coarse) that meets a fine point of one axis, or (tap, fine) of a coarse one. */
function meetingsAt(axis, role, point) {
  const found = [];
  for (const t of range(axis.K)) {
    if (role === "fine") {
      const shifted = point + axis.pb - axis.d * t;
      const x = shifted / axis.s;
      if (shifted % axis.s === 0 && x >= 0 && x < axis.X) found.push([t, x]);
    } else {
      const y = axis.s * point + axis.d * t - axis.pb;
      if (y >= 0 && y < axis.Y) found.push([t, y]);
    }
  }
  return found;
}

/** The meetings of a whole point: [tap, other point] pairs, the last axis varying fastest. */
function meetingsOf(problem, point) {
  const { axes, wanted } = problem;
  let found = [[[], []]];
  axes.forEach((axis, i) => {
    let along;
    if (wanted === "weights") {
      along = range(axis.X)
        .map((x) => [x, axis.s * x + axis.d * point[i] - axis.pb])
        .filter(([, y]) => y >= 0 && y < axis.Y);
    } else {
      along = meetingsAt(axis, wanted, point[i]);
    }
    found = found.flatMap(([a, b]) => along.map(([first, second]) => [[...a, first], [...b, second]]));
  });
  return found;
}

const resultSizes = ({ axes, wanted }) =>
  axes.map((axis) => ({ fine: axis.Y, coarse: axis.X, weights: axis.K })[wanted]);

/** What a point of the result is made of, in the caller's words. */
function meetingText(solved, point) {
  const { problem, spec } = solved;
  const names = { [spec.wanted]: spec.result };
  spec.given.forEach((role, i) => { names[role] = spec.inputs[i]; });
  const at = (role, place) => `${names[role]}[${place.join(", ")}]`;
  const found = meetingsOf(problem, point);
  const data = problem.wanted === "fine" ? "coarse" : "fine";
  const terms = found.map(([first, second]) => (problem.wanted === "weights"
    ? `${at("coarse", first)} × ${at("fine", second)}`
    : `${at(data, second)} × ${at("weights", first)}`));
  const shown = terms.slice(0, 9).join(" + ") + (terms.length > 9 ? ` + ${terms.length - 9} more` : "");
  return { head: `${at(problem.wanted, point)} = `, terms: shown || "0: nothing meets there", count: terms.length };
}

function phaseOf(problem, point) {
  return problem.axes.reduce((number, axis, i) => {
    const own = (((point[i] + axis.pb) % axis.s) + axis.s) % axis.s;
    return number * axis.s + own;
  }, 0);
}

const phaseColour = (number) => TABLE.palette.phases[number % TABLE.palette.phases.length];

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const part = parseInt(colour.slice(i, i + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#10151b" : "#ffffff";
}

function cell(kind, place, x, y, side, text, extra = "") {
  const data = place ? ` data-role="${place[0]}" data-point="${place[1].join(",")}"` : "";
  const font = Math.round(Math.min(13, side * 0.44) * 10) / 10;
  return `<g class="cell ${kind}"${data}><rect x="${x}" y="${y}" width="${side}" height="${side}" rx="${Math.min(4, side / 6)}"${extra}/>`
    + (text === "" ? "" : `<text x="${x + side / 2}" y="${y + side / 2}" font-size="${font}" text-anchor="middle" dominant-baseline="central"${extra ? ` style="fill:${inkOn(extra.slice(7, 14))}"` : ""}>${text}</text>`)
    + "</g>";
}

const label = (x, y, text, anchor = "start") =>
  `<text class="quiet" x="${x}" y="${y}" font-size="13" text-anchor="${anchor}">${text}</text>`;

const svg = (width, height, body) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true" focusable="false">${body}</svg>`;

function roleNames(spec) {
  const names = { [spec.wanted]: spec.result };
  spec.given.forEach((role, i) => { names[role] = spec.inputs[i]; });
  return names;
}

/** Draw one axis: the fine grid above, the coarse grid below, a line for every meeting. */
function drawLine(solved, width) {
  const { problem, spec, values } = solved;
  const axis = problem.axes[0];
  const names = roleNames(spec);
  const X = Math.min(axis.X, MOST_DRAWN), Y = Math.min(axis.Y, MOST_DRAWN);
  const last = axis.s * (X - 1) + spanOf(axis) - axis.pb; // behind the last window
  const low = Math.min(0, -axis.pb), high = Math.max(Y, Math.min(last, Y + MOST_DRAWN));
  const side = Math.max(22, Math.min(40, Math.floor((width - 16) / (high - low))));
  const gap = 3, left = 8, top = 26, drop = Math.max(84, Math.min(150, axis.K * 22));
  const at = (y) => left + (y - low) * side;
  const middle = (y) => at(y) + (side - gap) / 2;
  const centre = (x) => middle(axis.s * x - axis.pb) + ((spanOf(axis) - 1) / 2) * side;
  const below = top + side + drop;
  const tapsTop = below + side + 34;
  const parts = [];
  for (const x of range(X)) {
    for (const t of range(axis.K)) {
      const y = axis.s * x + axis.d * t - axis.pb;
      if (y < 0 || y >= Y) continue;
      parts.push(`<line class="tap" data-x="${x}" data-t="${t}" data-y="${y}" x1="${centre(x)}" y1="${below}" x2="${middle(y)}" y2="${top + side - gap}"/>`);
    }
  }
  for (let y = low; y < high; y++) {
    const inside = y >= 0 && y < Y;
    const extra = inside && problem.wanted === "fine" && values[0].op > 0 && y >= axis.Y - values[0].op;
    const number = phaseOf(problem, [y]);
    parts.push(inside
      ? cell(`coloured${extra ? " extra" : ""}`, ["fine", [y]], at(y), top, side - gap, y, ` fill="${phaseColour(number)}"`)
      : cell("pad", null, at(y), top, side - gap, ""));
  }
  for (const x of range(X)) parts.push(cell("plain", ["coarse", [x]], centre(x) - (side - gap) / 2, below, side - gap, x));
  const K = Math.min(axis.K, MOST_DRAWN);
  for (const t of range(K)) {
    const own = (axis.d * t) % axis.s;
    parts.push(cell("coloured", ["weights", [t]], left + t * side, tapsTop, side - gap, t, ` fill="${phaseColour(own)}"`));
  }
  const cut = (drawn, size) => (drawn < size ? `, the first ${drawn} of ${size}` : "");
  parts.push(label(left, 15, `${names.fine}${cut(Y, axis.Y)}`));
  parts.push(label(left, below + side + 12, `${names.coarse}${cut(X, axis.X)}`));
  parts.push(label(left + K * side + 8, tapsTop + side / 2 + 2, `taps of ${names.weights}`));
  const right = Math.max(at(high), centre(X - 1) + side, left + K * side + 150);
  return svg(Math.ceil(right + 8), tapsTop + side + 6, parts.join(""));
}

/** Draw two axes: the fine grid with its padding, the coarse grid and the taps beside it. */
function drawPlane(solved, width) {
  const { problem, spec, values } = solved;
  const names = roleNames(spec);
  const [rows, columns] = problem.axes;
  const most = 24;
  const drawn = (size) => Math.min(size, most);
  const Y = [drawn(rows.Y), drawn(columns.Y)], X = [drawn(rows.X), drawn(columns.X)];
  const K = [drawn(rows.K), drawn(columns.K)];
  const low = [rows, columns].map((axis) => Math.min(0, -axis.pb));
  const high = [rows, columns].map((axis, i) =>
    Math.max(Y[i], Math.min(axis.s * (X[i] - 1) + spanOf(axis) - axis.pb, Y[i] + 8)));
  const wide = high[1] - low[1], small = Math.max(X[1], K[1]);
  const narrow = width < 520;
  const fit = narrow ? (width - 16) / Math.max(wide, X[1] + K[1] + 1.5) : (width - 48) / (wide + small + 0.5);
  const side = Math.max(15, Math.min(32, Math.floor(fit)));
  const gap = side > 20 ? 3 : 2;
  const parts = [];
  const grid = (role, left, top, title, size, origin, cellOf) => {
    parts.push(label(left, top - 8, title));
    for (let r = origin[0]; r < size[0]; r++) {
      for (let c = origin[1]; c < size[1]; c++) {
        parts.push(cellOf(r, c, left + (c - origin[1]) * side, top + (r - origin[0]) * side));
      }
    }
  };
  const left = 8, top = 24;
  const cut = (has, size) => (has[0] < size[0] || has[1] < size[1] ? ` (${has.join("×")} of ${size.join("×")})` : "");
  grid("fine", left, top, names.fine + cut(Y, [rows.Y, columns.Y]), high, low, (r, c, x, y) => {
    if (r < 0 || c < 0 || r >= Y[0] || c >= Y[1]) return cell("pad", null, x, y, side - gap, "");
    const number = phaseOf(problem, [r, c]);
    const extra = problem.wanted === "fine"
      && ((values[0].op > 0 && r >= rows.Y - values[0].op) || (values[1].op > 0 && c >= columns.Y - values[1].op));
    return cell(`coloured${extra ? " extra" : ""}`, ["fine", [r, c]], x, y, side - gap,
      side > 17 ? number : "", ` fill="${phaseColour(number)}"`);
  });
  const fineBottom = top + (high[0] - low[0]) * side;
  const besideLeft = narrow ? left : left + wide * side + 28;
  const besideTop = narrow ? fineBottom + 30 : top;
  grid("coarse", besideLeft, besideTop, names.coarse + cut(X, [rows.X, columns.X]), X, [0, 0], (r, c, x, y) =>
    cell("plain", ["coarse", [r, c]], x, y, side - gap, ""));
  const tapsLeft = narrow ? left + (X[1] + 1.5) * side : besideLeft;
  const tapsTop = narrow ? besideTop : besideTop + X[0] * side + 32;
  grid("weights", tapsLeft, tapsTop, `taps of ${names.weights}`, K, [0, 0], (r, c, x, y) => {
    const number = ((rows.d * r) % rows.s) * columns.s + ((columns.d * c) % columns.s);
    return cell("coloured", ["weights", [r, c]], x, y, side - gap, side > 17 ? number : "", ` fill="${phaseColour(number)}"`);
  });
  const right = Math.max(left + wide * side, besideLeft + X[1] * side, tapsLeft + Math.max(K[1] * side, 120));
  const bottom = Math.max(fineBottom, besideTop + X[0] * side, tapsTop + K[0] * side);
  return svg(Math.ceil(right + 8), Math.ceil(bottom + 8), parts.join(""));
}

/** Mark the chosen point of the result and everything that it is made of. */
function markChosen(root, solved, point) {
  const { problem } = solved;
  const found = meetingsOf(problem, point);
  const met = { fine: new Set(), coarse: new Set(), weights: new Set() };
  const roles = { fine: ["weights", "coarse"], coarse: ["weights", "fine"], weights: ["coarse", "fine"] };
  for (const [first, second] of found) {
    met[roles[problem.wanted][0]].add(first.join(","));
    met[roles[problem.wanted][1]].add(second.join(","));
  }
  for (const each of root.querySelectorAll("[data-role]")) {
    const { role, point: place } = each.dataset;
    const chosen = role === problem.wanted && place === point.join(",");
    const on = met[role].has(place);
    each.classList.toggle("chosen", chosen);
    each.classList.toggle("met", on && !chosen);
    each.classList.toggle("dim", !on && !chosen && role !== problem.wanted);
  }
  const letter = { fine: "y", coarse: "x", weights: "t" }[problem.wanted];
  for (const each of root.querySelectorAll("line.tap")) {
    const on = Number(each.dataset[letter]) === point[0];
    each.classList.toggle("on", on);
    each.classList.toggle("off", !on);
  }
}

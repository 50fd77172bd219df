"use strict";
// The call in six dialects: objects' numbers and code, as tconv/translation writes them.

const NCX = { coarse: "n gc x", fine: "n gf x", weights: "gc f x" };
const tuples = (ask, value) => each(ask, "K").map(() => value);

/** ", name=value" for each value that is not its default. */
const keywords = (given) => given
  .filter(([, value, usual]) => value !== usual)
  .map(([name, value]) => `, ${name}=${value}`).join("");

const rewritten = (one) => ({ ...one, exact: false, notes: [TABLE.notes.weights, ...one.notes] });
const answered = (exact, note, code) =>
  ({ exact, notes: exact ? [] : [TABLE.notes[note]], code });

function toTorch(ask) {
  const { wanted, axes, sizes } = ask.problem;
  let fits = axes.map((axis) => symmetricFit(axis, wanted === "weights" ? "coarse" : wanted));
  if (wanted === "weights" && fits.some((one) => one.crop[0] || one.crop[1])) {
    return rewritten(toTorch(asGather(ask)));
  }
  const bySame = wanted === "coarse" && !fits.every(isBare)
    && axes.every((axis) => axis.s === 1) && isSame(axes, wanted);
  if (bySame) fits = fits.map(() => fit(0, 0, 0));
  const zeros = tupleText(tuples(ask, 0)), ones = tupleText(tuples(ask, 1));
  const shown = keywords([
    ["stride", tupleText(each(ask, "s")), ones],
    ["padding", bySame ? "'same'" : tupleText(fits.map((one) => one.begin)), zeros],
    ["dilation", tupleText(each(ask, "d")), ones],
    ["groups", String(sizes.g), "1"],
    ...(wanted === "fine"
      ? [["output_padding", tupleText(fits.map((one) => one.extra)), zeros]] : []),
  ]);
  const parts = around(ask, NCX, fits);
  const inputs = parts.inputs.map(([text, steps]) => write("torch", steps, text));
  let call, head = "import torch.nn.functional as F";
  if (wanted === "weights") {
    const shape = tupleText(layoutShape(NCX.weights, sizes, each(ask, "K")));
    call = `grad.conv${axes.length}d_weight(${inputs[0]}, ${shape}, ${inputs[1]}${shown})`;
    head = "from torch.nn import functional as F, grad";
  } else {
    const name = wanted === "fine" ? "conv_transpose" : "conv";
    call = `F.${name}${axes.length}d(${inputs.join(", ")}${shown})`;
  }
  const grown = fits.some((one) => one.grow[0] || one.grow[1]);
  const note = wanted !== "fine" ? "torch gather" : grown ? "torch grow" : "torch crop";
  return answered(fits.every(isBare), note,
    `${head}\n${parts.result} = ${write("torch", parts.after, call)}`);
}

class Nodes {
  constructor() { this.lines = []; this.count = {}; }

  fresh(name) {
    const stem = name.split("_step")[0];
    this.count[stem] = (this.count[stem] ?? 0) + 1;
    return `${stem}_step${this.count[stem]}`;
  }

  add(kind, inputs, output, attributes = []) {
    const quoted = (names) => `[${names.map((name) => `"${name}"`).join(", ")}]`;
    const more = attributes.map(([name, value]) => `, ${name}=${value}`).join("");
    this.lines.push(`make_node("${kind}", ${quoted(inputs)}, ${quoted([output])}${more})`);
  }

  constant(name, numbers) {
    const output = this.fresh(`${name.split("_step")[0]}_numbers`);
    this.add("Constant", [], output, [["value_ints", listText(numbers)]]);
    return output;
  }

  after(text, steps, end = "") {
    steps.forEach(([kind, numbers], number) => {
      const output = end && number === steps.length - 1 ? end : this.fresh(text);
      if (kind === "permute") {
        this.add("Transpose", [text], output, [["perm", listText(numbers)]]);
      } else if (kind === "reshape") {
        this.add("Reshape", [text, this.constant(text, numbers)], output);
      } else {
        const sign = kind === "pad" ? 1 : -1;
        const ends = [0, 1].flatMap((side) => numbers.map((pair) => sign * pair[side] || 0));
        this.add("Pad", [text, this.constant(text, ends)], output);
      }
      text = output;
    });
    return text;
  }

  code() {
    const lines = this.lines.map((line) => `    ${line},\n`).join("");
    return `from onnx.helper import make_node\nnodes = [\n${lines}]`;
  }
}

function toOnnx(ask) {
  const { wanted, axes, sizes } = ask.problem;
  if (wanted === "weights") return rewritten(toOnnx(asGather(ask)));
  const scatter = wanted === "fine";
  const fits = axes.map((axis) => freeFit(axis, wanted, axis.s - 1));
  const ones = listText(tuples(ask, 1)), zeros = listText(tuples(ask, 0));
  const numbers = [
    ["strides", listText(each(ask, "s")), ones],
    ["dilations", listText(each(ask, "d")), ones],
    ["pads", listText([...fits.map((one) => one.begin), ...fits.map((one) => one.end)]),
      listText([...tuples(ask, 0), ...tuples(ask, 0)])],
    ["group", String(sizes.g), "1"],
    ...(scatter ? [["output_padding", listText(fits.map((one) => one.extra)), zeros]] : []),
  ].filter(([, value, usual]) => value !== usual);
  const parts = around(ask, NCX, fits);
  const nodes = new Nodes();
  const inputs = parts.inputs.map(([text, steps]) => nodes.after(text, steps));
  const output = parts.after.length ? nodes.fresh(parts.result) : parts.result;
  nodes.add(scatter ? "ConvTranspose" : "Conv", inputs, output, numbers);
  nodes.after(output, parts.after, parts.result);
  return answered(fits.every(isBare), scatter ? "onnx grow" : "more", nodes.code());
}

function toOpenvino(ask) {
  const { wanted, axes, sizes } = ask.problem;
  if (wanted === "weights") return rewritten(toOpenvino(asGather(ask)));
  const scatter = wanted === "fine", grouped = sizes.g > 1;
  const fits = axes.map((axis) => freeFit(axis, wanted));
  const name = `${grouped ? "group_" : ""}convolution${scatter ? "_backprop_data" : ""}`;
  const extra = fits.map((one) => one.extra);
  const given = [
    ["strides", each(ask, "s")], ["pads_begin", fits.map((one) => one.begin)],
    ["pads_end", fits.map((one) => one.end)], ["dilations", each(ask, "d")],
    ...(scatter && extra.some(Boolean) ? [["output_padding", extra]] : []),
  ].map(([key, value]) => `, ${key}=${listText(value)}`).join("");
  const parts = around(ask, { ...NCX, weights: grouped ? "g c f x" : "gc f x" }, fits);
  const inputs = parts.inputs.map(([text, steps]) => write("openvino", steps, text)).join(", ");
  const result = write("openvino", parts.after, `ov.${name}(${inputs}${given})`);
  return answered(fits.every(isBare), "more",
    `from openvino import opset13 as ov\n${parts.result} = ${result}`);
}

const FORMATS = { "gc f x": "OIX", "x f gc": "XIO", "x gc f": "XOI", "f gc x": "IOX" };

function toOnednn(ask) {
  const { wanted, axes, sizes, layouts: own } = ask.problem;
  const scatter = wanted === "fine";
  const fits = axes.map((axis) => freeFit(axis, scatter ? "fine" : "coarse"));
  if (wanted === "weights" && !fits.every(isBare)) return rewritten(toOnednn(asGather(ask)));
  const first = own[dataOf(ask)].endsWith("x");
  const filters = own.weights in FORMATS ? own.weights : "gc f x";
  const layouts = first ? { ...NCX, weights: filters }
    : { coarse: "n x gc", fine: "n x gf", weights: filters };
  const spelled = FORMATS[filters]
    .replace(/[IO]/g, (letter) => (scatter ? { I: "O", O: "I" }[letter] : letter));
  const extra = fits.map((one) => one.extra);
  const said = {
    strides: each(ask, "s"), dilations: each(ask, "d"),
    pads_begin: fits.map((one) => one.begin), pads_end: fits.map((one) => one.end),
    groups: sizes.g, data_format: first ? "NCX" : "NXC", weights_format: spelled,
  };
  if (extra.some(Boolean)) said.output_padding = extra;
  if (wanted === "weights") said.weights_shape = layoutShape(filters, sizes, each(ask, "K"));
  const kind = { coarse: "Convolution", fine: "ConvTranspose", weights: "ConvolutionBackwardWeights" };
  const spec = TABLE.operators[`onednn.${kind[wanted]}`];
  const text = operatorText(spec, spec.fields
    .filter((field) => field.name in said).map((field) => [field, said[field.name]]));
  const parts = around(ask, layouts, fits);
  const inputs = parts.inputs.map(([name, steps]) => write("numpy", steps, name)).join(", ");
  return answered(fits.every(isBare), "more",
    `import tconv\n${parts.result} = ${write("numpy", parts.after, `tconv.${text}(${inputs})`)}`);
}

function toKeras(ask) {
  const { wanted, axes, sizes } = ask.problem;
  if (wanted === "weights") return rewritten(toKeras(asGather(ask)));
  const scatter = wanted === "fine";
  let fits = axes.map((axis) => unpaddedFit(axis, wanted));
  const bySame = !fits.every(isBare) && isSame(axes, wanted);
  if (bySame) fits = fits.map(() => fit(0, 0, 0));
  const spread = Math.max(...each(ask, "s")) > 1 && Math.max(...each(ask, "d")) > 1;
  const grouped = scatter && sizes.g > 1;
  const parts = around(ask, { coarse: "n x gc", fine: "n x gf", weights: "x f gc" }, fits);
  if (spread) {
    parts.inputs[1][1].push(["spread", [...axes.map((axis) => [axis.K, axis.d]), [1, 1], [1, 1]]]);
  }
  const ones = tupleText(tuples(ask, 1));
  const given = keywords([
    ["strides", tupleText(each(ask, "s")), ones],
    ["padding", bySame ? '"same"' : '"valid"', '"valid"'],
    ["dilation_rate", spread ? ones : tupleText(each(ask, "d")), ones],
    ["data_format", '"channels_last"', ""],
  ]);
  const texts = parts.inputs.map(([text, steps]) => write("keras", steps, text));
  let call = `keras.ops.${scatter ? "conv_transpose" : "conv"}(${texts.join(", ")}${given})`;
  if (grouped) {
    const halves = texts.map((text) => `keras.ops.split(${text}, ${sizes.g}, axis=-1)`).join(", ");
    const one = `keras.ops.conv_transpose(x, w${given})`;
    call = `keras.ops.concatenate([${one} for x, w in zip(${halves})], axis=-1)`;
  }
  const any = (way) => fits.some((one) => one[way][0] || one[way][1]);
  const notes = [
    ...(any("grow") ? [scatter ? "keras grow" : "keras gather"] : []),
    ...(any("crop") ? [scatter ? "keras crop" : "more"] : []),
    ...(grouped ? ["keras groups"] : []),
    ...(spread ? ["keras spread"] : []),
  ].map((key) => TABLE.notes[key]);
  const head = spread ? "import keras\nimport numpy as np\n" : "import keras\n";
  const code = `${head}${parts.result} = ${write("keras", parts.after, call)}`;
  return { exact: !notes.length, notes, code };
}

function toLax(ask) {
  const { wanted, axes, sizes, layouts: own } = ask.problem;
  if (wanted === "weights") return toLax(asGather(ask));
  const scatter = wanted === "fine";
  const words = (layout) => (sizes.g === 1 ? layout.replace(/g/g, "") : layout)
    .split(" ").filter(Boolean).sort();
  const usual = { ...NCX, weights: scatter ? "gf c x" : "gc f x" };
  const layouts = Object.fromEntries(Object.entries(usual).map(([role, layout]) => {
    const keep = same(words(own[role]), words(layout)) && !own[role].split(" ").includes("g");
    return [role, keep ? own[role] : layout];
  }));
  const pads = axes.map((axis) => (scatter
    ? [spanOf(axis) - 1 - axis.pb, spanOf(axis) - 1 - endOf(axis)] : [axis.pb, endOf(axis)]));
  const parts = around(ask, layouts, axes.map(() => fit(0, 0, 0)));
  if (scatter && axes.some((axis) => axis.K > 1)) {
    const start = layouts.weights.split(" ").indexOf("x");
    parts.inputs[1][1].push(["flip", axes.map((_, i) => start + i)]);
  }
  const letters = (role) => layouts[role].split(" ").map((word) => {
    const letter = word[word.length - 1];
    if (letter === "x") return "DHW".slice(-axes.length);
    if (letter === "n") return "N";
    return role !== "weights" ? "C" : (letter === "f") === scatter ? "O" : "I";
  }).join("");
  const ones = tupleText(tuples(ask, 1));
  const strides = tupleText(each(ask, "s"));
  const given = keywords([
    ["window_strides", scatter ? ones : strides, ""],
    ["padding", tupleText(pads), ""],
    ["lhs_dilation", scatter ? strides : ones, ones],
    ["rhs_dilation", tupleText(each(ask, "d")), ones],
    ["dimension_numbers", tupleText([dataOf(ask), "weights", wanted].map(letters)), ""],
    ["feature_group_count", String(sizes.g), "1"],
  ]);
  const inputs = parts.inputs.map(([text, steps]) => write("lax", steps, text)).join(", ");
  const result = write("lax", parts.after, `lax.conv_general_dilated(${inputs}${given})`);
  const head = inputs.includes("jnp.") ? "lax, numpy as jnp" : "lax";
  return { exact: true, notes: [], code: `from jax import ${head}\n${parts.result} = ${result}` };
}

const WRITERS = {
  torch: toTorch, onnx: toOnnx, openvino: toOpenvino,
  onednn: toOnednn, keras: toKeras, lax: toLax,
};

function translations(problem, spec) {
  if (problem.sizes.n < 1) return {};
  const names = { [spec.wanted]: spec.result };
  spec.given.forEach((role, i) => { names[role] = spec.inputs[i]; });
  return Object.fromEntries(Object.entries(WRITERS)
    .map(([to, writer]) => [to, writer({ problem, names })]));
}

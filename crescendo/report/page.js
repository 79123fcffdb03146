const view = { against: "k", log: false, whole: false };

function curve(measure) {
  const x = told.curves.x[view.against], { id, y, levels, last, remark, log } = measure;
  const narrow = isNarrow(document.getElementById(id));
  const shown = log || view.whole ? null : measure.shown; // far-apart values have a logarithmic axis, and all of it
  const outside = start(measure, x, shown);
  const range = log || (!shown ? {} : { range: outside && outside.below ? [shown[0] - 0.07 * (shown[1] - shown[0]), shown[1]] : shown });
  const from = view.log ? x.find((value) => value > 0) : 0, to = x[x.length - 1];
  const ours = {
    type: "scatter", mode: y.length <= 60 ? "lines+markers" : "lines", x, y, name: nameOf(last, narrow && outside),
    line: { color: "@accent", width: 2.5 }, marker: { size: 6, color: "@accent" },
    hovertemplate: id + " %{y:.4f} at %{x:,.5~s}<extra></extra>",
  };
  const lines = levels.map(({ at, text, color, dash }) => ({
    type: "scatter", mode: "lines", x: [from, to], y: [at, at], name: text, line: { color, dash, width: 1.5 }, hoverinfo: "skip",
  }));
  const ends = levels.map(({ at, text, color }) => ({ at, text, color }));
  if (last) ends.push({ ...last, color: "@accent" });
  draw(id, {
    data: [...lines, ours], ends,
    layout: {
      xaxis: { title: { text: told.curves.titles[view.against] }, ...span(from, to), ...(view.against === "k" && !view.log && to <= 8 && { dtick: 1 }) },
      yaxis: range, annotations: [...remarks(x, y, remark, shown, log), ...(outside && !narrow ? [beginning(outside, from, to)] : [])],
    },
  });
}

// All of the axis and a little more; a label in the picture must not stretch it.
function span(from, to) {
  const [low, high] = view.log ? [Math.log10(from), Math.log10(to)] : [from, to], more = 0.015 * (high - low || 1);
  return { type: view.log ? "log" : "linear", range: [low - more, high + more] };
}

// Where a curve begins that is not in the picture at first, and the x between which it comes in.
function start({ y, first }, x, shown) {
  const at = y.findIndex((value) => value !== null);
  if (!shown || at < 0 || (y[at] >= shown[0] && y[at] <= shown[1])) return null;
  const enters = y.findIndex((value) => value !== null && value >= shown[0] && value <= shown[1]);
  return { below: y[at] < shown[0], text: first, before: x[Math.max(enters - 1, 0)], after: x[Math.max(enters, 0)] };
}

function nameOf(last, outside) {
  const name = last ? last.text : "this run";
  return outside ? `${name}, from ${outside.text}` : name;
}

// A word at the foot of the axes, on the side of the curve that has room, or above them, where no curve is.
function beginning({ below, text, before, after }, from, to) {
  const place = (value) => (view.log ? Math.log10(Math.max(value, from)) : value);
  const late = place(before) - place(from) > 0.4 * (place(to) - place(from));
  const spot = below
    ? { xref: "x", x: place(late ? before : after), xanchor: late ? "right" : "left", xshift: late ? -6 : 6, y: 0, yanchor: "bottom" }
    : { xref: "paper", x: 0, xanchor: "left", xshift: 12, y: 1, yanchor: "bottom" };
  return { yref: "paper", ...spot, text: `${below ? "↓" : "↑"} begins at ${text}`, showarrow: false, font: { size: 12, color: "@muted" } };
}

// A word about a loss that rose.
function remarks(x, y, remark, shown, log) {
  if (!remark || (view.log && x[remark[0]] <= 0)) return [];
  const at = x[remark[0]], to = x[x.length - 1], from = x.find((value) => value > 0);
  const late = view.log ? at * at > from * to : 2 * at > to; // beyond the middle of the axis
  const level = log ? Math.log10(y[remark[0]]) : y[remark[0]], part = log ? log.range : shown;
  const high = part && level > (part[0] + part[1]) / 2;
  return [{
    x: view.log ? Math.log10(at) : at, y: level, text: remark[1],
    font: { size: 12, color: "@muted" }, align: "left", xanchor: late ? "right" : "left", ax: late ? -16 : 16, ay: high ? 36 : -44,
    bgcolor: colour("card"), arrowcolor: colour("muted"), arrowwidth: 1, arrowhead: 2, arrowsize: 0.8, standoff: 3,
  }];
}

const drawCurves = () => told.curves.measures.forEach(curve);

choices((x) => { view.against = x; drawCurves(); });
toggles((name, on) => { view[name] = on; drawCurves(); });
keepDrawn(() => {
  drawCurves();
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure));
});

const view = { against: "k", log: false, whole: false };

function curve(measure) {
  const x = told.curves.x[view.against], { id, y, levels, last, remark, log } = measure;
  const shown = log ? null : measure.shown; // far-apart values have a logarithmic axis, and all of it
  const from = view.log ? x.find((value) => value > 0) : 0, to = x[x.length - 1];
  const ours = {
    type: "scatter", mode: y.length <= 60 ? "lines+markers" : "lines", x, y, name: last ? last.text : "this run",
    line: { color: "@accent", width: 2.5 }, marker: { size: 6, color: "@accent" },
    hovertemplate: id + " %{y:.4f} at %{x:,.5~s}<extra></extra>",
  };
  const lines = levels.map(({ at, text, color, dash }) => ({
    type: "scatter", mode: "lines", x: [from, to], y: [at, at], name: text, line: { color, dash, width: 1.5 }, hoverinfo: "skip",
  }));
  const ends = levels.map(({ at, text, color }) => ({ at, text, color }));
  if (last) ends.push({ ...last, color: "@accent" });
  const range = log ? { type: "log", dtick: 1, tickformat: "~g" } : view.whole || !shown ? {} : { range: shown };
  draw(id, {
    data: [...lines, ours], ends,
    layout: {
      xaxis: { title: { text: told.curves.titles[view.against] }, ...span(from, to) },
      yaxis: range, annotations: remarks(x, y, remark, view.whole ? null : shown, log),
    },
  });
}

// All of the axis and a little more; a label in the picture must not stretch it.
function span(from, to) {
  const [low, high] = view.log ? [Math.log10(from), Math.log10(to)] : [from, to], more = 0.015 * (high - low || 1);
  return { type: view.log ? "log" : "linear", range: [low - more, high + more] };
}

// A word about a loss that rose, and where a curve begins that is not in the picture.
function remarks(x, y, remark, shown, log) {
  const made = [], small = { size: 12, color: "@muted" };
  if (remark && !(view.log && x[remark[0]] <= 0)) {
    const at = x[remark[0]], to = x[x.length - 1], from = x.find((value) => value > 0);
    const late = view.log ? at * at > from * to : 2 * at > to; // beyond the middle of the axis
    const high = shown && y[remark[0]] > (shown[0] + shown[1]) / 2;
    made.push({
      x: view.log ? Math.log10(at) : at, y: log ? Math.log10(y[remark[0]]) : y[remark[0]], text: remark[1], font: small, align: "left", xanchor: late ? "right" : "left", ax: late ? -16 : 16,
      ay: high ? 36 : -44, bgcolor: colour("card"), arrowcolor: colour("muted"), arrowwidth: 1, arrowhead: 2, arrowsize: 0.8, standoff: 3,
    });
  }
  const first = y.find((value) => value !== null);
  if (shown && first !== undefined && (first < shown[0] || first > shown[1])) {
    const below = first < shown[0], inside = below || innerWidth < NARROW; // else above the axes, where a legend may be
    made.push({
      xref: "paper", yref: "paper", x: 0, y: below ? 0 : 1, xanchor: "left", yanchor: below || !inside ? "bottom" : "top", xshift: 12,
      text: `${below ? "↓" : "↑"} begins at ${first.toPrecision(4)}`, showarrow: false, font: small,
    });
  }
  return made;
}

const drawCurves = () => told.curves.measures.forEach(curve);

choices((x) => { view.against = x; drawCurves(); });
toggles((name, on) => { view[name] = on; drawCurves(); });
keepDrawn(() => {
  drawCurves();
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure));
});

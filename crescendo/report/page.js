"use strict";
const told = JSON.parse(document.getElementById("data").textContent);
const options = { responsive: true, displaylogo: false, displayModeBar: false };
let against = "gradients";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A color "@accent" becomes the page's colour of that name, in light as in dark; a client may be called "@accent" too.
function painted(value, name) {
  if (name === "color") return colour(value.slice(1));
  if (Array.isArray(value)) return value.map((inner) => painted(inner));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, painted(inner, name)]));
  return value;
}

function axis(given) {
  const title = { ...(given && given.title), font: { size: 12, color: colour("muted") }, standoff: 10 };
  return {
    gridcolor: colour("grid"), linecolor: colour("grid"), zeroline: false, automargin: true,
    tickfont: { size: 12, color: colour("muted") }, ...given, title,
  };
}

function draw(id, data, layout) {
  const place = document.getElementById(id);
  if (!place) return;
  const family = getComputedStyle(document.body).fontFamily;
  Plotly.react(place, painted(data), {
    height: 320, margin: { l: 56, r: 16, t: 12, b: 48 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family, color: colour("ink"), size: 13 }, hoverlabel: { font: { family } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
    ...painted(layout), xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
  }, options);
}

function curve(name) {
  const values = told.curves.y[name];
  const place = document.getElementById(name);
  if (!values) { place.remove(); return; }
  const line = {
    type: "scatter", mode: values.length <= 60 ? "lines+markers" : "lines", x: told.curves.x[against], y: values,
    line: { color: "@accent", width: 2.5 }, cliponaxis: false, marker: { size: 6 }, hovertemplate: name + " %{y:.4f} at %{x:,.5~s}<extra></extra>",
  };
  draw(name, [line], { showlegend: false, xaxis: { title: { text: told.curves.titles[against] }, rangemode: "tozero" }, yaxis: { title: { text: name } } });
}

function drawAll() {
  ["accuracy", "loss"].forEach((name) => document.getElementById(name) && curve(name));
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure.data, figure.layout));
}

document.querySelectorAll(".switch button").forEach((button) =>
  button.addEventListener("click", () => {
    against = button.dataset.x;
    document.querySelectorAll(".switch button").forEach((other) => other.classList.toggle("on", other === button));
    ["accuracy", "loss"].forEach((name) => document.getElementById(name) && curve(name));
  }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();

"use strict";
const told = JSON.parse(document.getElementById("data").textContent);
const options = { responsive: true, displaylogo: false, displayModeBar: false };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A color "@accent" becomes the page's colour of that name, in light as in dark; a client may be called "@accent" too.
function painted(value, name) {
  if (name === "color") return colour(value.slice(1));
  if (name === "fillcolor") return colour(value.slice(1)) + "26"; // a shade that lines show through
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


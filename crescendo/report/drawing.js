"use strict";
const told = JSON.parse(document.getElementById("data").textContent);
const options = { responsive: true, displaylogo: false, displayModeBar: false };
const NARROW = 480; // pixels; below, labels at the ends of lines become a legend
const APART = 15; // pixels between two such labels

const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;

// The page's colour of a name as it is now, in light or in dark.
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

// A color "@accent" becomes the page's colour of that name; a client may be called "@accent" too.
function painted(value, name) {
  if (name === "color") return colour(value.slice(1));
  if (name === "fillcolor") return colour(value.slice(1)).replace("rgb(", "rgba(").replace(")", ", 0.15)"); // lines show through
  if (name === "colorscale") return value.map(([at, shade]) => [at, colour(shade.slice(1))]);
  if (Array.isArray(value)) return value.map((inner) => painted(inner));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, painted(inner, name)]));
  return value;
}

function axis(given = {}) {
  const title = { ...given.title, font: { size: 12, color: colour("muted") }, standoff: 10 };
  return {
    gridcolor: colour("grid"), linecolor: colour("grid"), zeroline: false, automargin: true, separatethousands: true,
    tickfont: { size: 12, color: colour("muted") }, ...(given.type === "log" && given.range && powers(given.range)), ...given, title,
  };
}

// Ticks of a logarithmic axis, all of one size: powers of ten, and where they are few, twice and five times those.
function powers([low, high]) {
  const times = high - low > 1.8 ? [1] : [1, 2, 5], apart = Math.ceil((high - low) / 7), made = [];
  for (let power = Math.floor(low); power <= high; power++)
    if (power % apart === 0)
      for (const one of times) if (Math.log10(one) + power >= low && Math.log10(one) + power <= high) made.push([one, power]);
  return { tickvals: made.map(([one, power]) => one * 10 ** power), ticktext: made.map(([one, power]) => amount(one, power)) };
}

function amount(one, power) {
  if (power < -4 || power > 11) return `${one > 1 ? one + "×" : ""}10<sup>${power}</sup>`;
  const unit = power < 3 ? 0 : power - (power % 3);
  return `${Number((one * 10 ** (power - unit)).toPrecision(1))}${{ 0: "", 3: "k", 6: "M", 9: "G" }[unit]}`;
}

function width(text) {
  const context = (width.context ??= document.createElement("canvas").getContext("2d"));
  context.font = "12px " + getComputedStyle(document.body).fontFamily;
  return context.measureText(text.replaceAll("&amp;", "&").replaceAll("&lt;", "<").replaceAll("&gt;", ">")).width;
}

function draw(id, figure) {
  const place = document.getElementById(id);
  if (!place || !window.Plotly) return;
  const { data, layout, ends = [] } = figure;
  const family = getComputedStyle(document.body).fontFamily;
  const narrow = isNarrow(place), labelled = ends.length > 0 && !narrow;
  const beside = layout.xaxis2 && narrow; // two figures in little room: fewer ticks, and a legend above the heading
  const right = labelled ? 20 + Math.max(...ends.map((end) => width(end.text))) : 16;
  Plotly.react(place, painted(data), {
    margin: { l: 48, r: right, t: 18, b: layout.xaxis.title ? 44 : 30 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family, color: colour("ink"), size: 13 }, hoverlabel: { font: { family } }, dragmode: false,
    legend: { orientation: "h", x: 0, y: 1.02 + (beside ? 20 / (layout.height - 90) : 0), yanchor: "bottom", font: { size: 12 } },
    showlegend: ends.length > 0 && !labelled,
    ...painted(layout), height: (layout.height || 320) + (narrow ? 12 * ends.length : 0), // room for its legend
    xaxis: axis({ ...layout.xaxis, ...(beside && { nticks: 4 }) }), yaxis: axis(layout.yaxis),
    ...(layout.xaxis2 && { xaxis2: axis({ ...layout.xaxis2, ...(beside && { tickvals: [1] }) }) }),
  }, options).then(() => Plotly.relayout(place, {
    ...decimals(place._fullLayout.yaxis), annotations: [...painted(layout.annotations || []), ...(labelled ? labels(place, ends) : [])],
  }));
}

const isNarrow = (place) => place.clientWidth < NARROW;

// Ticks with as many decimals each: 0.80, 0.85 and 0.90.
function decimals({ type, tickformat, dtick }) {
  const count = -Math.floor(Math.log10(dtick) + 1e-9);
  return type === "linear" && !tickformat && count > 0 ? { "yaxis.tickformat": count < 5 ? `.${count}f` : "~g" } : {};
}

// Labels at the height where their lines end, moved apart where they would overlap.
function labels(place, ends) {
  const { d2p, _length: high } = place._fullLayout.yaxis;
  const spots = ends.map((end) => ({ ...end, down: d2p(end.at) })).filter(({ down }) => down > -2 && down < high + 2);
  spots.sort((a, b) => a.down - b.down);
  spots.forEach((spot, i) => { if (i) spot.down = Math.max(spot.down, spots[i - 1].down + APART); });
  for (let i = spots.length - 1, most = high + 6; i >= 0; most = spots[i].down - APART, i--)
    spots[i].down = Math.min(spots[i].down, most);
  return spots.map(({ down, text, color }) => ({
    xref: "paper", x: 1, xanchor: "left", xshift: 10, yref: "paper", y: 1 - down / high, yanchor: "middle", text,
    showarrow: false, font: { size: 12, color: colour(color.slice(1)) },
  }));
}

// A picture of a figure as it is on the page, with its heading.
async function save(button) {
  const place = document.getElementById(button.dataset.of);
  const heading = place.parentElement.querySelector("h3").textContent;
  const { layout, data } = place, scale = button.dataset.save === "png" ? 2 : 1;
  const text = heading.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const above = place._fullLayout._size.t + 14; // pixels from the top of the axes to that of the figure on the page, and on
  const title = {
    text, xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", xshift: -30, yshift: above - 8,
    showarrow: false, font: { size: 15, color: colour("ink") },
  };
  const titled = {
    ...layout, paper_bgcolor: colour("card"), margin: { ...layout.margin, t: above + 24 },
    annotations: [...(layout.annotations || []), title],
  };
  await Plotly.downloadImage({ data, layout: titled }, {
    format: button.dataset.save, scale, width: place.clientWidth, height: place.clientHeight + 40,
    filename: `${told.name}-${place.id}`.replaceAll(/[^\w.-]+/g, "_"),
  });
}

document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", () => save(button)));

function isDark() {
  return (document.documentElement.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

// Draws now, and again whenever colours or the room for labels change. The page's own script calls it.
function keepDrawn(drawAll) {
  const button = document.getElementById("theme");
  const again = () => { button.textContent = isDark() ? "Light" : "Dark"; drawAll(); };
  button.addEventListener("click", () => {
    document.documentElement.style.colorScheme = isDark() ? "light" : "dark";
    again();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let wide = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === wide) return; // a phone's address bar comes and goes
    wide = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 200);
  });
  again();
}

// Buttons of which one is on: [data-x] chooses what curves run along.
function choices(chosen) {
  const all = document.querySelectorAll("[data-x]");
  all.forEach((button) => button.addEventListener("click", () => {
    all.forEach((other) => { other.classList.toggle("on", other === button); other.setAttribute("aria-pressed", other === button); });
    chosen(button.dataset.x);
  }));
}

// Buttons that are on or off.
function toggles(turned) {
  document.querySelectorAll("[data-toggle]").forEach((button) => button.addEventListener("click", () => {
    const on = button.classList.toggle("on");
    button.setAttribute("aria-pressed", on);
    turned(button.dataset.toggle, on);
  }));
}


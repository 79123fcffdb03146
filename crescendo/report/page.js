let against = "gradients";

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

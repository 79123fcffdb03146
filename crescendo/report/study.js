let against = Object.keys(told.curves)[0];
let closer = false; // only the part of the y axis in which the curves end

function drawCurves() {
  if (!against) return;
  const { data, layout } = told.curves[against];
  draw("curves", data, closer ? { ...layout, yaxis: { ...layout.yaxis, range: told.ends } } : layout);
}

function drawAll() {
  drawCurves();
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure.data, figure.layout));
}

document.querySelectorAll(".switch button[data-x]").forEach((button) =>
  button.addEventListener("click", () => {
    against = button.dataset.x;
    document.querySelectorAll(".switch button[data-x]").forEach((other) => other.classList.toggle("on", other === button));
    drawCurves();
  }));
document.querySelectorAll(".switch button[data-zoom]").forEach((button) =>
  button.addEventListener("click", () => {
    closer = button.classList.toggle("on");
    button.setAttribute("aria-pressed", closer);
    drawCurves();
  }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();

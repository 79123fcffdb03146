let against = Object.keys(told.curves)[0];

function drawAll() {
  if (against) draw("curves", told.curves[against].data, told.curves[against].layout);
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure.data, figure.layout));
}

document.querySelectorAll(".switch button").forEach((button) =>
  button.addEventListener("click", () => {
    against = button.dataset.x;
    document.querySelectorAll(".switch button").forEach((other) => other.classList.toggle("on", other === button));
    drawAll();
  }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();

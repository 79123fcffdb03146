const view = { against: Object.keys(told.curves)[0], closer: false, whole: false };

function drawCurves() {
  if (!view.against) return;
  const figure = told.curves[view.against];
  const range = view.whole ? undefined : view.closer ? told.ends : told.shown;
  draw("curves", { ...figure, layout: { ...figure.layout, yaxis: { ...figure.layout.yaxis, ...(range && { range }) } } });
}

choices((x) => { view.against = x; drawCurves(); });
toggles((name, on) => {
  view[name] = on;
  const other = name === "whole" ? "closer" : "whole"; // one of them at a time
  if (on && view[other]) document.querySelector(`[data-toggle=${other}]`).click();
  drawCurves();
});
keepDrawn(() => {
  drawCurves();
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure));
});

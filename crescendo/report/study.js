const view = { against: Object.keys(told.curves)[0], closer: false };

function drawCurves() {
  if (!view.against) return;
  const figure = told.curves[view.against];
  const range = view.closer ? told.ends : told.shown;
  draw("curves", { ...figure, layout: { ...figure.layout, yaxis: { ...figure.layout.yaxis, range } } });
}

choices((x) => { view.against = x; drawCurves(); });
toggles((name, on) => { view[name] = on; drawCurves(); });
keepDrawn(() => {
  drawCurves();
  Object.entries(told.figures).forEach(([id, figure]) => draw(id, figure));
});

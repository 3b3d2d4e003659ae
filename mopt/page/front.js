"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [first, second] = data.axes;
  const byId = (id) => document.getElementById(id);
  let chosen = -1;

  // -- Text: always as text, never as HTML. plotly.js reads tags in its labels, so these are escaped.

  const literal = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const number = (value) => String(Number(value.toPrecision(6)));
  const amount = (axis, value) => (axis.percent ? `${number(100 * value)} %` : number(value));
  const where = (row) => `${first.name} ${amount(first, row.at[0])}, ${second.name} ${amount(second, row.at[1])}`;

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  const fill = (id, children) => byId(id).replaceChildren(...children);
  const items = (texts) => texts.map((text) => element("li", text));

  // -- Filters

  const ranges = data.axes.map((axis) => {
    const line = element("div");
    const inputs = ["min", "max"].map((end) => {
      const input = element("input");
      input.type = "number";
      input.step = "any";
      input.id = `${axis === first ? "first" : "second"}-${end}`;
      input.placeholder = end;
      input.setAttribute("aria-label", `${axis.name} ${end}`);
      return input;
    });
    line.append(`${axis.label} `, inputs[0], " to ", inputs[1]);
    byId("ranges").append(line);
    return { scale: axis.percent ? 100 : 1, inputs };
  });

  const boxes = data.resources.map((name) => {
    const label = element("label");
    const box = element("input");
    box.type = "checkbox";
    box.defaultChecked = true;
    label.append(box, ` ${name}`);
    byId("resources").append(label);
    return box;
  });
  byId("types").hidden = byId("kinds").hidden = !data.planned;

  function passes(row) {
    const within = ranges.every(({ scale, inputs: [low, high] }, k) => {
      // What is typed has fewer digits than the values: the last one may round either way.
      const value = scale * row.at[k];
      const slack = 1e-6 * Math.abs(value);
      return (low.value === "" || value >= Number(low.value) - slack) &&
        (high.value === "" || value <= Number(high.value) + slack);
    });
    const most = byId("most-types").value;
    return within && (most === "" || row.uses.length <= Number(most)) && row.uses.every((k) => boxes[k].checked);
  }

  // -- The front

  // The border of the dominated side: the second objective stays until the first reaches the next piece.
  function border() {
    const x = [], y = [];
    data.rows.forEach((row, k) => {
      const before = data.rows[k - 1];
      if (before && (row.segment === null || row.segment !== before.segment)) {
        x.push(row.at[0]);
        y.push(before.at[1]);
      }
      x.push(row.at[0]);
      y.push(row.at[1]);
    });
    return { x, y };
  }

  const hoverText = (row) => [where(row), ...row.fleet].map(literal).join("<br>");

  function markers(rows, name, marker, more) {
    return {
      x: rows.map((k) => data.rows[k].at[0]), y: rows.map((k) => data.rows[k].at[1]), name, mode: "markers", marker,
      customdata: rows, text: rows.map((k) => hoverText(data.rows[k])), hoverinfo: "text", ...more,
    };
  }

  function segments(rows) {
    const trace = { x: [], y: [], name: "segment", mode: "lines", line: { color: "#000", width: 3 }, hoverinfo: "skip" };
    rows.forEach((k, n) => {
      const row = data.rows[k];
      const joined = n > 0 && rows[n - 1] === k - 1 && data.rows[k - 1].segment === row.segment;
      if (row.segment === null) return;
      if (!joined) { trace.x.push(null); trace.y.push(null); }
      trace.x.push(row.at[0]);
      trace.y.push(row.at[1]);
    });
    return trace;
  }

  // The whole front with some room: filters leave the axes as they are.
  function extent(k) {
    const values = data.rows.map((row) => row.at[k]);
    const low = Math.min(...values), high = Math.max(...values);
    const room = 0.06 * (high - low || Math.abs(high) || 1);
    return values.length ? [low - room, high + room] : [0, 1];
  }

  const axisLayout = (axis, k) => ({
    range: extent(k),
    title: { text: literal(axis.label) }, tickformat: axis.percent ? ".3~%" : "", zeroline: false, exponentformat: "power",
  });
  const layout = {
    margin: { l: 70, r: 15, t: 10, b: 50 }, hovermode: "closest", showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, font: { family: "system-ui, sans-serif", size: 13 },
    hoverlabel: { bgcolor: "#fff", font: { color: "#111" }, align: "left" },
  };
  const config = { displayModeBar: false, responsive: true };

  function drawFront() {
    const all = data.rows.map((_, k) => k);
    const shown = all.filter((k) => passes(data.rows[k]));
    const isEnd = (k) => data.rows[k].share === 0 || data.rows[k].share === 1;
    const traces = [
      { ...border(), name: "border of the dominated side", mode: "lines", line: { color: "#bbb", width: 1 }, hoverinfo: "skip" },
      segments(shown),
      markers(shown.filter((k) => !isEnd(k)), "along a segment", { color: "#000", size: 7, opacity: 0 }, { showlegend: false }),
      markers(shown.filter((k) => isEnd(k) && data.rows[k].closed), "point of the front", { color: "#000", size: 8 }),
      markers(shown.filter((k) => !data.rows[k].closed), "open end",
        { color: "#fff", size: 9, line: { color: "#000", width: 1.5 } }),
      { x: data.knee ? [data.knee[0]] : [], y: data.knee ? [data.knee[1]] : [], name: "knee", mode: "markers",
        marker: { symbol: "diamond-open", color: "#000", size: 15 }, hoverinfo: "skip" },
      { x: chosen < 0 ? [] : [data.rows[chosen].at[0]], y: chosen < 0 ? [] : [data.rows[chosen].at[1]], name: "chosen",
        mode: "markers", marker: { symbol: "circle-open", color: "#d55e00", size: 18, line: { width: 3 } }, hoverinfo: "skip" },
    ];
    const plans = shown.filter((k) => data.rows[k].csv !== null).length;
    const total = all.filter((k) => data.rows[k].csv !== null).length;
    byId("count").textContent = `${plans} of ${total} shown`;
    return Plotly.react("front", traces.filter((trace) => trace.x.length),
      { ...layout, uirevision: "kept", xaxis: axisLayout(first, 0), yaxis: axisLayout(second, 1) }, config);
  }

  // -- The chosen plan

  function choose(k) {
    chosen = k;
    const row = data.rows[k];
    byId("chosen").textContent = (data.planned ? "Plan at " : "Point at ") + where(row) +
      (row.closed ? "" : " (open end: approached, not on the front)");
    fill("facts", row.facts.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
    const isText = (n) => ["resource", "workload", "variable"].includes(row.columns[n]);
    const line = (cells, tag) => {
      const tr = element("tr");
      tr.append(...cells.map((cell, n) => element(tag, cell, isText(n) ? "text" : "")));
      return tr;
    };
    fill("plan", [line(row.columns, "th"), ...row.table.map((cells) => line(cells, "td"))]);
    fill("notes", items([...row.notes, ...(row.proof ? [`proof: ${row.proof}`] : [])]));
    drawRoofline(row.roofs);
    return drawFront();
  }

  function drawRoofline(roofs) {
    byId("roofline").hidden = !roofs.length;
    byId("no-roofline").textContent = roofs.length || !data.planned ? "" :
      "No roofline: the page was made without the problem. Give it to to_html() for one.";
    if (!roofs.length) return;
    const dashes = ["solid", "dash", "dot", "dashdot", "longdash"];
    const symbols = ["circle", "square", "triangle-up", "diamond", "cross"];
    const reading = "%{y:.4~g} TFLOP/s at %{x:.4~g} FLOP/B<extra></extra>";
    const reached = roofs.filter((roof) => roof.reached);
    const across = [...roofs.map((roof) => roof.ridge), ...reached.map((roof) => roof.intensity)];
    const low = Math.min(...across) / 4, high = Math.max(...across) * 4;
    const several = new Set(roofs.map((roof) => roof.workload)).size > 1;
    const traces = roofs.flatMap((roof, k) => [{
      x: [low, roof.ridge, high], y: [roof.peak * low / roof.ridge, roof.peak, roof.peak], mode: "lines",
      name: literal(roof.name + (several ? `, ${roof.workload}` : "") + (roof.reached ? `: batch ${roof.batch}` : "")),
      line: { color: "#555", dash: dashes[k % dashes.length], width: 2 }, hovertemplate: reading,
    }, {
      x: roof.reached ? [roof.intensity] : [], y: roof.reached ? [roof.reached] : [], mode: "markers", showlegend: false,
      marker: { color: "#d55e00", size: 11, symbol: symbols[k % symbols.length] }, name: literal(roof.name),
      hovertemplate: reading,
    }]);
    // Ticks at 1, 2 and 5 too, where an axis spans few decades.
    const log = (text, span) => ({ type: "log", title: { text }, dtick: span < 1000 ? "D2" : 1 });
    const heights = [...roofs.map((roof) => roof.peak), ...reached.map((roof) => roof.reached)];
    const deep = Math.max(...heights) / Math.min(...heights, ...roofs.map((roof) => roof.peak * low / roof.ridge));
    Plotly.react("roofline", traces, {
      ...layout, legend: { ...layout.legend, orientation: "v" },
      xaxis: log("arithmetic intensity (FLOP/B)", high / low), yaxis: log("performance of one unit (TFLOP/s)", deep),
    }, config);
  }

  // -- Buttons

  function step(by) {
    for (let k = chosen + by; k >= 0 && k < data.rows.length; k += by) {
      if (data.rows[k].csv !== null && passes(data.rows[k])) return choose(k);
    }
  }

  function nearest(x, y) {
    let best = 0;
    const span = [0, 1].map((k) => Math.abs(data.rows[data.rows.length - 1].at[k] - data.rows[0].at[k]) || 1);
    const far = (row) => Math.hypot((row.at[0] - x) / span[0], (row.at[1] - y) / span[1]);
    data.rows.forEach((row, k) => { if (row.closed && far(row) < far(data.rows[best])) best = k; });
    return best;
  }

  function download() {
    const lines = data.rows.filter((row) => row.csv !== null && passes(row)).map((row) => row.csv);
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([[data.header, ...lines, ""].join("\n")], { type: "text/csv" }));
    link.download = "front.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  byId("heading").textContent = data.heading;
  byId("state").textContent = data.state;
  byId("state").className = data.complete ? "" : "incomplete";
  fill("statements", items(data.statements));
  byId("filters").addEventListener("input", drawFront);
  byId("filters").addEventListener("reset", () => setTimeout(drawFront));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("to-knee").addEventListener("click", () => data.knee && choose(nearest(...data.knee)));
  byId("download").addEventListener("click", download);

  drawFront().then(() => byId("front").on("plotly_click", ({ points }) => choose(points[0].customdata)));
  if (data.knee) choose(nearest(...data.knee));
})();

// What moves on the console's pages. Every page is whole without it.
//
//   <figure class="chart" data-series="/series.json?…">   becomes a chart of that JSON twin; what it held stays below it
//   <section data-live id="…">                            is exchanged for the same section of the page, as it is now
//   <table data-tail="/tail/stream?…">                    gets a row for each record that comes
//
// One stream (/live) says that something has changed. All texts go in as text, never as HTML made here.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const AGAIN_MS = 30000;
  const ANSWER_MS = 30000; // of a console whose machine is gone no answer comes, and no error either
  const asked = (address) =>
    fetch(address, {
      headers: { "X-Penstock-Live": "1" }, // it keeps no session alive
      credentials: "same-origin",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  const charts = new Map();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const LINES = ["--line-0", "--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6", "--line-7"];

  const short = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1e9) return (value / 1e9).toFixed(1) + " G";
    if (size >= 1e6) return (value / 1e6).toFixed(1) + " M";
    if (size >= 1e4) return (value / 1e3).toFixed(0) + " k";
    return size >= 10 || value === 0 ? value.toFixed(0) : value.toPrecision(2);
  };

  const time = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19); // UTC, as in the tables

  const columns = (data) => {
    const length = data.lines.length ? data.lines[0].values.length : 0;
    const times = Array.from({ length }, (_, at) => (data.newest_ms - (length - 1 - at) * data.step_ms) / 1000);
    return [times, ...data.lines.map((line) => line.values)];
  };

  const options = (figure, data) => {
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(figure.clientWidth - 4, 240),
      height: 180,
      cursor: { drag: { x: true, y: false } },
      legend: { live: true },
      scales: { y: { range: (plot, low, high) => [0, Math.max((high || 0) * 1.08, 1)] } },
      axes: [{ ...axis, space: 80, values: (plot, ticks) => ticks.map(time) }, { ...axis, size: 60, values: (plot, ticks) => ticks.map(short) }],
      series: [
        { label: "time", value: (plot, seconds) => (seconds === null ? "–" : time(seconds)) },
        ...data.lines.map((line, at) => ({
          label: line.name,
          stroke: colour(LINES[at % LINES.length]),
          width: 2,
          dash: at >= 4 ? [6, 4] : undefined,
          value: (plot, value) => short(value) + " " + data.unit,
        })),
      ],
    };
  };

  const draw = async (figure) => {
    const answer = await asked(figure.dataset.series);
    if (!answer.ok) return;
    const data = await answer.json();
    const names = data.lines.map((line) => line.name).join("\n");
    const known = charts.get(figure);
    if (known && known.names === names) {
      known.plot.setData(columns(data));
    } else if (data.lines.length) {
      if (known) known.plot.destroy();
      const plot = new uPlot(options(figure, data), columns(data));
      plot.root.setAttribute("aria-hidden", "true"); // the picture below it, and the table, say the same
      figure.prepend(plot.root);
      figure.classList.add("drawn");
      charts.set(figure, { plot, names });
    }
  };

  // A page that is not as the cluster is says so, whatever it shows.
  const stale = (why) => {
    let note = document.getElementById("stale");
    if (!why) {
      if (note) note.remove();
      return;
    }
    if (!note) {
      note = document.createElement("p");
      note.id = "stale";
      note.className = "bad";
      note.setAttribute("role", "alert");
      document.getElementById("content").prepend(note);
    }
    note.textContent = "This page is as it was at " + document.getElementById("as-of").textContent + ": " + why + ".";
  };

  const drawAll = () => Promise.allSettled([...document.querySelectorAll("figure[data-series]")].map(draw));

  const exchange = async () => {
    if (!document.querySelector("[data-live]")) return;
    let answer;
    try {
      answer = await asked(location.href);
    } catch {
      return stale("the console does not answer");
    }
    if (answer.redirected) location.reload(); // to the log-in
    if (!answer.ok) return stale(answer.status === 404 ? "what it shows is gone" : "the cluster does not answer, or refuses");
    const now = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = now.getElementById(part.id);
      const isSame = !other || other.innerHTML === part.innerHTML;
      if (!isSame && !part.contains(document.activeElement)) part.replaceWith(document.adoptNode(other));
    }
    stale("");
    document.getElementById("as-of").textContent = now.getElementById("as-of").textContent;
  };

  let last = -EVERY_MS; // not by the calendar: set back by a day, it would keep the page still for that day
  let waits = false;
  const changed = () => {
    if (waits || document.hidden) return;
    waits = true;
    setTimeout(async () => {
      last = performance.now();
      await Promise.allSettled([drawAll(), exchange()]);
      waits = false;
    }, Math.max(0, last + EVERY_MS - performance.now()));
  };

  const tail = (table) => {
    const rows = table.tBodies[0];
    const state = document.getElementById("tail-state");
    const source = new EventSource(table.dataset.tail);
    const limit = Number(table.dataset.rows);
    source.addEventListener("records", (event) => {
      for (const record of JSON.parse(event.data).records) {
        const row = rows.insertRow(0);
        for (const text of record) row.insertCell().textContent = text;
      }
      while (rows.rows.length > limit) rows.deleteRow(-1);
    });
    source.addEventListener("state", (event) => {
      state.textContent = JSON.parse(event.data).text;
    });
    source.addEventListener("end", (event) => {
      state.textContent = JSON.parse(event.data).text;
      source.close();
    });
    const button = document.getElementById("tail-stop");
    button.hidden = false;
    button.addEventListener("click", () => {
      source.close();
      state.textContent = "stopped";
      button.hidden = true;
    });
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table[data-tail]").forEach(tail);
    const moves = document.querySelector("figure[data-series], [data-live]");
    if (!moves) return;
    drawAll();
    const follow = () => {
      const stream = new EventSource("/live");
      stream.addEventListener("changed", changed);
      stream.addEventListener("error", () => {
        changed();
        if (stream.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN_MS); // refused: the browser gives it up
      });
    };
    follow();
    document.addEventListener("visibilitychange", changed);
    const anew = () => {
      for (const { plot } of charts.values()) plot.destroy();
      charts.clear();
      drawAll();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
    let resized = 0;
    addEventListener("resize", () => {
      clearTimeout(resized);
      resized = setTimeout(anew, 200);
    });
  });
})();

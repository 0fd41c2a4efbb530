// The charts of the page, drawn by D3 from the numbers in the page. Each is one stop for the Tab key; arrow keys walk inside it, and what the
// pointer or the focus is on is said in words below it. Everything is put in as text, never as HTML.
"use strict";
(() => {
  const source = document.getElementById("data");
  if (!source || !document.getElementById("waterfall")) return;
  const data = JSON.parse(source.textContent);
  const by = id => document.getElementById(id);
  const count = value => value == null ? "unknown" : d3.format(",")(value);
  const percent = value => value == null ? "unknown" : `${(100 * value).toFixed(1)} %`;
  const money = value => {
    if (value == null) return "unknown";
    const digits = value === 0 || Math.abs(value) >= 0.1 ? 2 : 4;
    return (value < 0 ? "-$" : "$") + d3.format(`,.${digits}f`)(Math.abs(value));
  };
  const time = at => new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ");
  const HEIGHT = 300, TOP = 34, BOTTOM = 30, AXIS = 52;

  // Marks that can be walked: one of them takes part in the Tab order, the keys move that place.
  function walk(marks, tell, isMiss) {
    const nodes = marks.nodes();
    let here = 0;
    const go = place => {
      place = Math.max(0, Math.min(nodes.length - 1, place));
      nodes[here].setAttribute("tabindex", "-1");
      here = place;
      nodes[here].setAttribute("tabindex", "0");
      nodes[here].focus({preventScroll: true});
      nodes[here].scrollIntoView({block: "nearest", inline: "nearest"});
    };
    const miss = step => {
      for (let place = here + step; place >= 0 && place < nodes.length; place += step) if (isMiss(place)) return place;
      return here;
    };
    const keys = {
      ArrowRight: () => here + 1, ArrowLeft: () => here - 1, ArrowUp: () => here + 1, ArrowDown: () => here - 1,
      PageDown: () => here + 10, PageUp: () => here - 10, Home: () => 0, End: () => nodes.length - 1, m: () => miss(1), M: () => miss(-1),
    };
    if (nodes.length) nodes[0].setAttribute("tabindex", "0");
    marks.on("focus", (event, d) => { nodes[here].setAttribute("tabindex", "-1"); here = nodes.indexOf(event.currentTarget);
      event.currentTarget.setAttribute("tabindex", "0"); tell(d); })
      .on("pointerenter", (event, d) => tell(d))
      .on("click", event => go(nodes.indexOf(event.currentTarget)))
      .on("keydown", event => {
        const next = event.ctrlKey || event.altKey || event.metaKey ? null : keys[event.key];
        if (next) { event.preventDefault(); go(next()); }
      });
  }

  function frame(host, width, height) {
    const chart = d3.select(host);
    chart.selectAll("*").remove();
    const axis = chart.append("svg").attr("width", AXIS).attr("height", height).attr("aria-hidden", "true");
    const scroll = chart.append("div").attr("class", "scroll");
    const svg = scroll.append("svg").attr("width", width).attr("height", height).attr("role", "group");
    return {axis: axis.append("g").attr("transform", `translate(${AXIS - 1},0)`), svg, scroll};
  }

  function grid(svg, y, width) {
    svg.append("g").attr("class", "grid").attr("aria-hidden", "true").selectAll("line").data(y.ticks(5)).join("line")
      .attr("x2", width).attr("y1", d => y(d)).attr("y2", d => y(d));
  }

  function say(host, parts) {
    d3.select(host).selectAll("span").data(parts.filter(part => part[0])).join("span").attr("class", part => part[1] || null).text(part => part[0]);
  }

  // Waterfall -------------------------------------------------------------------------------------------------------------
  const PARTS = [["read", "read from cache"], ["write", "written to cache"], ["fresh", "fresh"]];
  const state = {session: 0, lane: -1, step: 0};

  function patterns(svg, name) {
    const defs = svg.append("defs");
    for (const [part] of PARTS) {
      const tile = defs.append("pattern").attr("id", `${name}-${part}`).attr("width", 6).attr("height", 6).attr("patternUnits", "userSpaceOnUse");
      tile.append("rect").attr("class", part).attr("width", 6).attr("height", 6);
      if (part === "write") tile.append("path").attr("class", "stripe").attr("d", "M-1 7L7 -1M-4 4L4 -4M2 10L10 2").attr("stroke-width", 1.4);
      if (part === "fresh") tile.append("circle").attr("class", "dot").attr("cx", 3).attr("cy", 3).attr("r", 1.1);
    }
  }

  function turnsOf(session) {
    const turns = [];
    for (let i = 0; i < session.at.length; i++) {
      if (state.lane >= 0 && session.lane[i] !== state.lane) continue;
      turns.push({
        n: session.start + i + 1, at: session.at[i], read: session.read[i], write: session.write[i], fresh: session.fresh[i],
        output: session.output[i], usd: session.usd[i], lane: session.lanes[session.lane[i]], model: session.models[session.model[i]],
        miss: session.misses[i] || null,
      });
    }
    return turns;
  }

  const inWords = turn => `Call ${turn.n}, ${time(turn.at)} UTC, ${turn.model}, lane ${turn.lane}: ` +
    `${count(turn.read)} read, ${count(turn.write)} written, ${count(turn.fresh)} fresh, ${count(turn.output)} output tokens, ${money(turn.usd)}.`;
  const missInWords = miss => {
    if (!miss) return "";
    const lost = miss.lost ? ` Lost ${count(miss.lost)} tokens, ${money(miss.usd)}.${miss.advice ? ` ${miss.advice}.` : ""}` : "";
    return `${miss.lost ? "Missed" : "No loss"}: ${miss.cause}, ${miss.where}.${miss.provider ? ` Provider ${miss.provider}.` : ""}${lost}`;
  };
  // Both sides of a break, each on a line of its own.
  const sidesOf = miss => miss && miss.was !== undefined ? [["Was", miss.was], ["now", miss.now]].flatMap(([name, text]) =>
    [[`${name} `, "side"], text ? [text, "quote"] : ["nothing"]]) : [];
  const isLoss = turn => Boolean(turn.miss && turn.miss.lost);

  function waterfall() {
    const session = data.sessions[state.session];
    if (!session) return;
    const turns = turnsOf(session), host = by("waterfall-chart");
    const room = Math.max(200, host.clientWidth - AXIS - 20);
    const fit = Math.max(1, Math.min(40, room / Math.max(1, turns.length)));
    const step = state.step || fit, width = Math.max(room, Math.ceil(step * turns.length)) + 18;
    const {axis, svg, scroll} = frame(host, width, HEIGHT);
    const x = d3.scaleBand(d3.range(turns.length), [1, 1 + step * turns.length]).paddingInner(step >= 4 ? 0.18 : 0);
    const whole = turn => Math.max((turn.read || 0) + (turn.write || 0) + (turn.fresh || 0), turn.miss ? turn.miss.expected : 0);
    const y = d3.scaleLinear([0, d3.max(turns, whole) || 1], [HEIGHT - BOTTOM, TOP]).nice(5);
    axis.call(d3.axisLeft(y).ticks(5, "~s"));
    svg.attr("aria-label", `Calls of session ${session.label}, ${turns.length} drawn`).attr("aria-describedby", "waterfall-help");
    patterns(svg, "fill");
    grid(svg, y, width);
    const stacked = d3.stack().keys(PARTS.map(part => part[0])).value((turn, part) => turn[part] || 0)(turns);
    svg.append("g").attr("class", "parts").attr("aria-hidden", "true").selectAll("g").data(stacked).join("g").attr("fill", layer => `url(#fill-${layer.key})`)
      .selectAll("rect").data(layer => layer.map((ends, i) => [i, ends]).filter(([, ends]) => ends[1] > ends[0])).join("rect")
      .attr("x", ([i]) => x(i)).attr("width", x.bandwidth()).attr("y", ([, ends]) => y(ends[1])).attr("height", ([, ends]) => y(ends[0]) - y(ends[1]));
    flags(svg, turns, x, y);
    const every = Math.max(1, Math.ceil(70 / step)), round = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000].find(n => n >= every) || every;
    const ticks = d3.range(turns.length).filter(i => turns[i].n % round === 0 || turns.length === 1);
    svg.append("g").attr("aria-hidden", "true").attr("transform", `translate(0,${HEIGHT - BOTTOM})`)
      .call(d3.axisBottom(x).tickValues(ticks).tickFormat(i => turns[i].n).tickSizeOuter(0));
    const marks = svg.append("g").selectAll("rect").data(turns).join("rect").attr("class", "turn").attr("role", "img").attr("tabindex", -1)
      .attr("aria-label", turn => `${inWords(turn)} ${missInWords(turn.miss)}`).attr("x", (turn, i) => x(i)).attr("y", TOP - 16)
      .attr("width", Math.max(2, x.bandwidth())).attr("height", HEIGHT - BOTTOM - TOP + 16);
    walk(marks, turn => say(by("waterfall-told"), [[`${inWords(turn)} `], [missInWords(turn.miss), isLoss(turn) ? "missed" : ""],
      ...sidesOf(turn.miss)]),
      place => isLoss(turns[place]));
    scroll.attr("role", "presentation");
    const left = session.start ? `The last ${count(session.at.length)} of its ${count(session.calls)} calls are drawn. ` : "";
    say(by("waterfall-told"), [[`${left}${count(turns.filter(isLoss).length)} of ${count(turns.length)} calls lost something. ` +
      "Point at a bar, or walk with the arrow keys."]]);
    if (by("turns").open) turnTable(turns); else by("turns-table").replaceChildren();
  }

  // A frame around what was lost, a flag above it, and the cause in words where the one before leaves room.
  function flags(svg, turns, x, y) {
    const lost = turns.map((turn, i) => [turn, i]).filter(([turn]) => isLoss(turn));
    const group = svg.append("g").attr("aria-hidden", "true");
    group.selectAll("rect").data(lost).join("rect").attr("class", "lost").attr("x", ([, i]) => x(i) + 0.5).attr("width", Math.max(2, x.bandwidth() - 1))
      .attr("y", ([turn]) => y(turn.miss.expected)).attr("height", ([turn]) => Math.max(1, y(turn.read || 0) - y(turn.miss.expected)));
    const middle = i => x(i) + x.bandwidth() / 2;
    group.selectAll("path").data(lost).join("path").attr("class", "flag").attr("d", ([, i]) => `M${middle(i) - 5} ${TOP - 14}h10l-5 9z`);
    const end = x.range()[1], width = turn => 7 * turn.miss.cause.length, isLast = (turn, i) => middle(i) + width(turn) > svg.attr("width");
    let free = 0;
    const named = lost.filter(([turn, i]) => {
      const from = isLast(turn, i) ? Math.min(middle(i) - 5, end - 4) - width(turn) : middle(i) - 5;
      if (from < free) return false;
      free = from + width(turn) + 14;
      return true;
    });
    group.selectAll("text").data(named).join("text").attr("class", "cause").attr("y", TOP - 20).text(([turn]) => turn.miss.cause)
      .attr("x", ([, i]) => Math.min(middle(i) - 5, Math.max(0, end - 4))).attr("text-anchor", ([turn, i]) => isLast(turn, i) ? "end" : "start");
  }

  const TURN_COLUMNS = [
    ["call", turn => turn.n, 1], ["at (UTC)", turn => time(turn.at)], ["lane", turn => turn.lane], ["read", turn => count(turn.read), 1],
    ["written", turn => count(turn.write), 1], ["fresh", turn => count(turn.fresh), 1], ["cost", turn => money(turn.usd), 1],
    ["cause", turn => isLoss(turn) ? turn.miss.cause : ""], ["where", turn => isLoss(turn) ? turn.miss.where : ""],
    ["lost tokens", turn => isLoss(turn) ? count(turn.miss.lost) : "", 1],
  ];

  function turnTable(turns) {
    const host = d3.select(by("turns-table"));
    host.selectAll("*").remove();
    const box = host.append("div").attr("class", "box").attr("role", "region").attr("tabindex", 0).attr("aria-label", "Calls of the session");
    const table = box.append("table");
    table.append("caption").text("Calls of the session");
    table.append("thead").append("tr").selectAll("th").data(TURN_COLUMNS).join("th").attr("scope", "col").attr("class", c => c[2] ? "n" : null).text(c => c[0]);
    table.append("tbody").selectAll("tr").data(turns).join("tr").selectAll("td").data(turn => TURN_COLUMNS.map(c => [c[1](turn), c[2]])).join("td")
      .attr("class", cell => cell[1] ? "n" : null).text(cell => cell[0]);
  }

  function choose(place) {
    const session = data.sessions[place];
    if (!session) return;
    Object.assign(state, {session: place, lane: -1, step: 0});
    by("session").value = place;
    by("lane-label").hidden = session.lanes.length < 2;
    d3.select(by("lane")).selectAll("option").data([[-1, "all"], ...session.lanes.map((name, i) => [i, name])]).join("option")
      .attr("value", row => row[0]).text(row => row[1]);
    by("lane").value = -1;
    waterfall();
  }

  function zoom(factor) {
    const turns = turnsOf(data.sessions[state.session]).length, room = by("waterfall-chart").clientWidth - AXIS - 20;
    state.step = Math.max(1, Math.min(60, (state.step || Math.max(1, Math.min(40, room / Math.max(1, turns)))) * factor));
    waterfall();
  }

  // Hit rate over time ----------------------------------------------------------------------------------------------------
  const DASHES = ["", "7 4", "2 3", "9 3 2 3", "4 2", "1 4"];
  const shapeOf = i => d3.symbol(d3.symbolsFill[i % d3.symbolsFill.length], 52)();

  function overTime() {
    const lines = data.time[by("lines").value], host = by("time-chart"), width = Math.max(200, host.clientWidth - AXIS - 2);
    const {axis, svg} = frame(host, width, 250);
    const points = lines.flatMap((line, i) => line.points.map(([at, rate, prompt, usd, calls]) => ({i, name: line.name, at, rate, prompt, usd, calls})));
    const known = points.filter(point => point.rate != null);
    const [from, to] = d3.extent(points, point => point.at * 1000);
    const x = d3.scaleUtc([from, from === to ? to + 1000 * data.time.step : to], [26, width - 26]), y = d3.scaleLinear([0, 1], [220, 12]);
    const tick = at => {
      const iso = at.toISOString();
      return to - from > 3 * 86400000 || iso.slice(11, 16) === "00:00" ? iso.slice(0, 10) : iso.slice(11, 16);
    };
    const steps = x.ticks(Math.max(2, width / 110)), every = Math.ceil(80 * steps.length / (width - 52));
    const ticks = steps.filter((at, i) => i % every === 0); // each as wide as a date
    axis.call(d3.axisLeft(y).ticks(5, "~%"));
    svg.attr("aria-label", `Hit rate for each ${data.time.word}, ${lines.length} lines`);
    grid(svg, y, width);
    svg.append("g").attr("aria-hidden", "true").attr("transform", "translate(0,220)").call(d3.axisBottom(x).tickValues(ticks).tickFormat(tick).tickSizeOuter(0));
    const path = d3.line().defined(point => point[1] != null).x(point => x(point[0] * 1000)).y(point => y(point[1]));
    svg.append("g").attr("aria-hidden", "true").selectAll("path").data(lines).join("path").attr("class", (line, i) => `line c${i}`)
      .attr("stroke-dasharray", (line, i) => DASHES[i]).attr("d", line => path(line.points));
    const words = point => `${point.name}, from ${time(point.at).slice(0, 16)} UTC: ${percent(point.rate)} of ${count(point.prompt)} input tokens read, ` +
      `${count(point.calls)} calls, ${money(point.usd)}.`;
    const marks = svg.append("g").selectAll("path").data(known).join("path").attr("class", point => `point c${point.i}`).attr("role", "img")
      .attr("tabindex", -1).attr("aria-label", words).attr("d", point => shapeOf(point.i)).attr("transform", point => `translate(${x(point.at * 1000)},${y(point.rate)})`);
    walk(marks, point => say(by("time-told"), [[words(point)]]), () => false);
    const legend = d3.select(by("time-legend"));
    legend.selectAll("*").remove();
    const item = legend.selectAll("li").data(lines).join("li");
    const sign = item.append("svg").attr("width", 34).attr("height", 12).attr("aria-hidden", "true");
    sign.append("path").attr("class", (line, i) => `line c${i}`).attr("stroke-dasharray", (line, i) => DASHES[i]).attr("d", "M0 6H34");
    sign.append("path").attr("class", (line, i) => `point c${i}`).attr("d", (line, i) => shapeOf(i)).attr("transform", "translate(17,6) scale(.8)");
    item.append("span").text(line => line.name);
    say(by("time-told"), [["Point at a mark, or walk with the arrow keys."]]);
  }

  function legendOfParts() {
    const item = d3.select(by("waterfall-legend")).selectAll("li").data(PARTS).join("li");
    const sign = item.append("svg").attr("width", 18).attr("height", 12).attr("aria-hidden", "true");
    sign.append("rect").attr("width", 18).attr("height", 12).attr("fill", part => `url(#fill-${part[0]})`);
    item.append("span").text(part => part[1]);
    const missed = d3.select(by("waterfall-legend")).append("li");
    missed.append("svg").attr("width", 18).attr("height", 14).attr("aria-hidden", "true").append("path").attr("class", "flag").attr("d", "M4 3h10l-5 9z");
    missed.append("span").text("missed, with its cause; dashed: what could have been read");
  }

  // Prefix tree -----------------------------------------------------------------------------------------------------------
  // The cells stand in the page; here they are walked, told of, and their texts fitted by whole words.
  const cells = [...document.querySelectorAll("#prefixes-chart .cell")];

  function prefixes() {
    if (!cells.length) return;
    const level = cell => Number(cell.dataset.level);
    const find = (place, step, wanted, stop) => {
      for (let i = place + step; i >= 0 && i < cells.length && !stop(level(cells[i])); i += step) if (level(cells[i]) === wanted) return i;
      return place;
    };
    let here = 0;
    const go = place => {
      cells[here].setAttribute("tabindex", "-1");
      here = place;
      cells[here].setAttribute("tabindex", "0");
      cells[here].focus();
    };
    const tell = cell => say(by("prefixes-told"), [[cell.getAttribute("aria-label")], ...sidesOf(cell.dataset)]);
    const keys = {
      ArrowDown: (at, own) => find(at, 1, own + 1, other => other <= own), ArrowUp: (at, own) => find(at, -1, own - 1, () => false),
      ArrowRight: (at, own) => find(at, 1, own, () => false), ArrowLeft: (at, own) => find(at, -1, own, () => false),
      Home: () => 0, End: () => cells.length - 1,
    };
    cells[0].setAttribute("tabindex", "0");
    cells.forEach((cell, place) => {
      cell.addEventListener("focus", () => { cells[here].setAttribute("tabindex", "-1"); here = place; cell.setAttribute("tabindex", "0"); tell(cell); });
      cell.addEventListener("pointerenter", () => tell(cell));
      cell.addEventListener("click", () => go(place));
      cell.addEventListener("keydown", event => {
        const next = event.ctrlKey || event.altKey || event.metaKey ? null : keys[event.key];
        if (next) { event.preventDefault(); go(next(here, level(cells[here]))); }
      });
    });
  }

  // As many whole words as there is room for.
  function fitPrefixes() {
    for (const cell of cells) {
      const room = cell.querySelector(".ground").getBoundingClientRect().width - 12;
      for (const text of cell.querySelectorAll("text")) {
        let words = text.dataset.text.split(" ");
        text.textContent = room > 0 ? words.join(" ") : "";
        while (words.length && text.textContent && text.getComputedTextLength() > room) {
          words = words.slice(0, -1);
          text.textContent = words.length ? `${words.join(" ").replace(/[ ·+:→]+$/, "")}…` : "";
        }
      }
    }
  }

  by("session").addEventListener("change", event => choose(Number(event.target.value)));
  by("lane").addEventListener("change", event => { state.lane = Number(event.target.value); state.step = 0; waterfall(); });
  by("wider").addEventListener("click", () => zoom(1.6));
  by("narrower").addEventListener("click", () => zoom(1 / 1.6));
  by("lines").addEventListener("change", overTime);
  by("turns").addEventListener("toggle", () => { if (by("turns").open) turnTable(turnsOf(data.sessions[state.session])); });
  document.addEventListener("click", event => {
    const link = event.target.closest("[data-session]");
    if (link) choose(data.sessions.findIndex(session => session.name === link.dataset.session));
  });
  let width = 0, frameOfRedraw = 0;
  const redraw = () => {
    if (by("waterfall-chart").clientWidth === width) return;
    width = by("waterfall-chart").clientWidth;
    waterfall();
    overTime();
    fitPrefixes();
  };
  new ResizeObserver(() => {
    cancelAnimationFrame(frameOfRedraw);
    frameOfRedraw = requestAnimationFrame(redraw);
  }).observe(document.querySelector("main"));
  legendOfParts();
  choose(0);
  overTime();
  prefixes();
  fitPrefixes();
  width = by("waterfall-chart").clientWidth;
})();

// The page's script: draws a picture, moves along its time, and takes what comes live.
// Must not change anything but the page.
"use strict";
(() => {
  const CELLS = [
    ["new", "■", "runs the desired agent"],
    ["proving", "◑", "its new agent is Ready and must stay so"],
    ["starting", "◐", "its agent starts or is being replaced"],
    ["old", "□", "runs an agent that is not the desired one"],
    ["failing", "✖", "has no available agent: something is wrong with it"],
    ["missing", "·", "has no available agent: its node is the cause"],
  ];
  const EVENTS = 200;
  const KEPT = 500;
  const EXPLAINED = 5000; // milliseconds
  const find = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  let picture = { title: "", begins: "", live: true, objects: [] };
  let shown = 0;
  let drawn = null;
  let chosen = null;
  let timer = null;

  const span = (seconds) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
    let rest = seconds;
    const text = parts.flatMap(([size, unit]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count > 0 ? [`${count}${unit}`] : [];
    });
    return text.join(" ") || "0s";
  };
  const moment = (at) => new Date(Date.parse(picture.begins) + at * 1000).toISOString().slice(0, 19) + "Z";
  const end = (object) => Math.max(0, ...[object.frames, object.wholes].map((all) => (all.length ? all[all.length - 1][0] : 0)));

  function legend() {
    find("legend").replaceChildren(...CELLS.map(([name, glyph, meaning], number) => {
      const item = make("li");
      item.append(make("span", glyph, `cell c${number}`), ` ${name}: ${meaning}`);
      return item;
    }));
  }

  // Builds the zones of an object, with a button for each node.
  function build(object) {
    const zones = new Map();
    object.nodes.forEach(([name, zone], number) => {
      if (!zones.has(zone)) zones.set(zone, []);
      zones.get(zone).push([name, number]);
    });
    const cells = [];
    const counts = new Map();
    const all = [...zones].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }));
    const sections = all.map(([zone, nodes]) => {
      nodes.sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }));
      const section = make("section", undefined, "zone");
      const title = make("h2", zone || "no zone");
      const grid = make("div", undefined, "cells");
      grid.setAttribute("role", "group");
      grid.setAttribute("aria-label", `Nodes of ${zone || "no zone"}`);
      nodes.forEach(([name, number], at) => {
        const cell = make("button", "", "cell gone");
        // Its text changes in place: of thousands of cells that takes half the time.
        cell.append("");
        cell.type = "button";
        cell.dataset.number = number;
        cell.title = name;
        cell.tabIndex = at === 0 ? 0 : -1;
        cell.setAttribute("aria-pressed", "false");
        cells[number] = cell;
        grid.append(cell);
      });
      counts.set(zone, { title, name: zone || "no zone", all: new Array(CELLS.length).fill(0) });
      section.append(title, grid);
      return section;
    });
    find("zones").replaceChildren(...sections);
    find("zones").classList.toggle("many", object.nodes.length > 1500);
    drawn = { object, cells, counts, is: new Array(object.nodes.length).fill(null), frame: 0, at: -1 };
  }

  // Tab reaches one cell of each zone: one that is shown.
  function reachable() {
    for (const grid of find("zones").querySelectorAll(".cells")) {
      const now = grid.querySelector('[tabindex="0"]');
      if (now && !now.classList.contains("gone")) continue;
      if (now) now.tabIndex = -1;
      const first = grid.querySelector(".cell:not(.gone)");
      if (first) first.tabIndex = 0;
    }
  }

  function set(number, cell) {
    const [name, zone] = drawn.object.nodes[number];
    const was = drawn.is[number];
    if (was === cell) return;
    const count = drawn.counts.get(zone);
    if (was !== null) count.all[was] -= 1;
    if (cell !== null) count.all[cell] += 1;
    drawn.is[number] = cell;
    const element = drawn.cells[number];
    element.className = cell === null ? "cell gone" : `cell c${cell}`;
    element.firstChild.data = cell === null ? "" : CELLS[cell][1];
    element.setAttribute("aria-label", cell === null ? name : `${name}: ${CELLS[cell][0]}`);
  }

  // Shows an object as it was at a time.
  function show(at) {
    const object = picture.objects[shown];
    if (!object) return;
    if (!drawn || drawn.object !== object || drawn.cells.length !== object.nodes.length) {
      const hadFocus = document.activeElement && document.activeElement.classList.contains("cell");
      build(object);
      // What was chosen stays chosen when a node joins.
      const cell = chosen === null ? undefined : drawn.cells[chosen];
      if (cell) cell.setAttribute("aria-pressed", "true");
      drawn.focus = hadFocus ? cell : undefined;
    }
    if (at < drawn.at) {
      drawn.is.forEach((_, number) => set(number, null));
      drawn.frame = 0;
    }
    while (drawn.frame < object.frames.length && object.frames[drawn.frame][0] <= at) {
      object.frames[drawn.frame][1].forEach(([number, cell]) => set(number, cell));
      drawn.frame += 1;
    }
    drawn.at = at;
    reachable();
    if (drawn.focus) drawn.focus.focus();
    drawn.focus = undefined;
    for (const { title, name, all } of drawn.counts.values()) {
      const sum = all.reduce((a, b) => a + b, 0);
      const others = all.map((count, cell) => [count, CELLS[cell][0]]).slice(1).filter(([count]) => count > 0);
      title.textContent = [`${name} ${all[0]}/${sum}`, ...others.map(([count, cell]) => `${count} ${cell}`)].join(", ");
    }
    const whole = object.wholes.filter(([time]) => time <= at).pop();
    const head = whole ? whole[1] : null;
    find("whole").textContent = head
      ? `${object.name}: ${head.state} ${head.updated}/${head.selected}${head.to ? ` → ${head.to}` : ""}${head.finish ? `, done ${head.finish}` : ""}`
      : `${object.name}: nothing is known yet`;
    find("said").textContent = (head && head.said) || "";
    find("causes").replaceChildren(...(head ? head.causes : []).map((text) => make("li", text)));
    find("clock").textContent = `${span(at)} (${moment(at)})`;
    find("time").value = at;
    events(object, at);
    explain(object);
  }

  function events(object, at) {
    const now = object.events.filter((event) => event.at <= at).slice(-EVENTS).reverse();
    const key = `${shown} ${now.length} ${now.length ? now[0].at + now[0].message : ""}`;
    if (drawn.events === key) return;
    drawn.events = key;
    find("events").replaceChildren(...now.map((event) => {
      const item = make("li", undefined, event.warning ? "warning" : "");
      item.append(make("time", picture.live ? moment(event.at) : span(event.at)), ` ${event.reason}: ${event.message}`);
      return item;
    }));
  }

  // What there is to say of the node that was selected.
  function explain(object) {
    if (chosen === null || !object.nodes[chosen]) return;
    const [name, zone] = object.nodes[chosen];
    const cell = drawn.is[chosen];
    const state = cell === null ? "is not selected" : `${CELLS[cell][0]}: ${CELLS[cell][2]}`;
    const text = `${name}${zone ? ` in ${zone}` : ""}, ${state}`;
    const key = `${shown} ${chosen} ${cell}`;
    if (drawn.explained === key) return;
    drawn.explained = key;
    if (!find("node").textContent.startsWith(text)) find("node").textContent = text;
    if (!picture.live) return;
    const query = new URLSearchParams({ object: String(shown), node: name });
    fetch(`explain?${query}`, { credentials: "same-origin" })
      .then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(answer.statusText))))
      .then((said) => {
        const all = `${text}. ${said}`;
        if (drawn.explained === key && find("node").textContent !== all) find("node").textContent = all;
      })
      .catch(() => {});
  }

  function choose(number) {
    if (chosen !== null && drawn.cells[chosen]) drawn.cells[chosen].setAttribute("aria-pressed", "false");
    chosen = number;
    drawn.cells[number].setAttribute("aria-pressed", "true");
    explain(picture.objects[shown]);
  }

  function keys(event) {
    const cell = event.target.closest("button.cell");
    if (!cell) return;
    const all = [...cell.parentElement.querySelectorAll("button.cell:not(.gone)")];
    const at = all.indexOf(cell);
    const wide = Math.max(1, all.findIndex((other) => other.offsetTop > all[0].offsetTop));
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + wide, ArrowUp: at - wide, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = all[Math.min(all.length - 1, Math.max(0, to))];
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    choose(Number(next.dataset.number));
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    find("play").textContent = "Play";
  }

  // Goes from one change to the next: most of the time nothing happens.
  function play() {
    if (timer !== null) return stop();
    const object = picture.objects[shown];
    if (drawn.at >= end(object)) show(0);
    find("play").textContent = "Pause";
    timer = setInterval(() => {
      const next = object.frames.find(([at]) => at > drawn.at);
      if (!next) return stop();
      show(next[0]);
    }, 120);
  }

  function objects() {
    const names = picture.objects.map((object, number) => {
      const option = make("option", object.name);
      option.value = number;
      return option;
    });
    find("object").replaceChildren(...names);
    find("object").disabled = names.length < 2;
    shown = Math.min(shown, Math.max(0, names.length - 1));
    find("object").value = shown;
  }

  // Of a page that stays open for days the past is forgotten.
  function compact(object) {
    if (object.frames.length < KEPT) return;
    const is = new Map();
    object.frames.forEach(([, cells]) => cells.forEach(([number, cell]) => is.set(number, cell)));
    object.frames = [[end(object), [...is]]];
    object.wholes = object.wholes.slice(-1);
    if (drawn && drawn.object === object) drawn.frame = drawn.at >= object.frames[0][0] ? 1 : 0;
  }

  function begin(whole) {
    const of = picture.objects[shown];
    const name = of && chosen !== null ? of.nodes[chosen][0] : null;
    picture = whole;
    drawn = null;
    const now = picture.objects[shown];
    const at = now ? now.nodes.findIndex(([known]) => known === name) : -1;
    chosen = at < 0 ? null : at;
    document.title = picture.title;
    find("title").textContent = picture.title;
    objects();
    pick();
  }

  function pick() {
    const object = picture.objects[shown];
    if (!object) {
      find("whole").textContent = "There is no object.";
      return;
    }
    find("time-controls").hidden = picture.live;
    find("time").max = end(object);
    show(end(object));
  }

  function connect() {
    const source = new EventSource("events");
    const connection = find("connection");
    source.addEventListener("open", () => { connection.hidden = true; });
    source.addEventListener("error", () => {
      connection.hidden = false;
      connection.textContent = source.readyState === EventSource.CLOSED
        ? "The dashboard has ended. Start it again and open its new address."
        : "The connection is lost. This page may be old. It connects again.";
    });
    source.addEventListener("picture", (event) => begin(JSON.parse(event.data)));
    source.addEventListener("change", (event) => {
      const { object, nodes, frames, wholes, events: more } = JSON.parse(event.data);
      const to = picture.objects[object];
      if (!to) return;
      to.nodes.push(...nodes);
      to.frames.push(...frames);
      to.wholes.push(...wholes);
      to.events.push(...more);
      if (object === shown) show(end(to));
      compact(to);
    });
    source.addEventListener("trouble", (event) => {
      const why = JSON.parse(event.data);
      connection.hidden = why === null;
      connection.textContent = why || "";
    });
  }

  // A cause may become another one while the cell stays the same.
  setInterval(() => {
    if (!picture.live || !drawn || chosen === null) return;
    drawn.explained = null;
    explain(picture.objects[shown]);
  }, EXPLAINED);

  legend();
  find("zones").addEventListener("click", (event) => {
    const cell = event.target.closest("button.cell");
    if (cell) choose(Number(cell.dataset.number));
  });
  find("zones").addEventListener("keydown", keys);
  find("object").addEventListener("change", (event) => {
    stop();
    shown = Number(event.target.value);
    chosen = null;
    find("node").textContent = "Select a node: Tab to a zone, then the arrow keys.";
    pick();
  });
  find("time").addEventListener("input", (event) => { stop(); show(Number(event.target.value)); });
  find("play").addEventListener("click", play);
  const data = find("data");
  if (data) begin(JSON.parse(data.textContent));
  else connect();
})();

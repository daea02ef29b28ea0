// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws when what was where, from pieces of time: whole, or the part that is zoomed to.
"use strict";
document.querySelectorAll("figure.when").forEach((figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const svg = figure.querySelector("svg");
  const text = figure.querySelector(".shown");
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const high = 18, gap = 6, top = 26, most = 24, ticks = 8;
  const every = figure.querySelector(".all");
  let from = 0, to = data.length, left = 110, width = 890, columns = 445, folded = data.rows.length > most;
  // Of hundreds of rows those that wait most, and the pCPUs that are used most by others.
  const worst = (rows, count) => [...rows].sort((a, b) => b.ready - a.ready).slice(0, count);
  const few = worst(data.rows.filter((line) => line.tid !== null), most - 8).concat(
    worst(data.rows.filter((line) => line.tid === null), 8));
  const shown = () => folded ? few : data.rows;

  const node = (name, attributes, inside) => {
    const made = document.createElementNS("http" + ":/" + "/www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    if (inside !== undefined) made.textContent = inside;
    return made;
  };
  const shares = (pieces, at) => {
    const one = letters.indexOf(pieces[2 * at]), two = letters.indexOf(pieces[2 * at + 1]);
    return one < 0 || two < 0 ? [0, 0, 0, 0] : [one >> 3, one & 7, two >> 3, two & 7];
  };
  // The roundest step that gives no more than so many ticks: 1, 2 or 5 of some unit.
  const step = () => {
    const least = (to - from) / Math.max(2, Math.min(ticks, width / 90));
    const ten = 10 ** Math.floor(Math.log10(Math.max(1, least)));
    return [1, 2, 5, 10].map((times) => times * ten).find((size) => size >= least);
  };
  const time = (ns, size) => {
    const [unit, name] = size >= 1e8 ? [1e9, "s"] : size >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
    const digits = Math.max(0, Math.ceil(-Math.log10(size / unit) - 1e-9));
    return (ns / unit).toFixed(digits) + " " + name;
  };
  const x = (ns) => left + (ns - from) * width / (to - from);

  const row = (line, at) => {
    const y = top + at * (high + gap), paths = {};
    svg.append(node("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, line.label));
    const count = line.pieces.length / 2, pcpu = line.tid === null;
    let range = 0;
    for (let column = 0; column < columns; column++) {
      const begin = from + (to - from) * column / columns;
      const end = from + (to - from) * (column + 1) / columns;
      const first = Math.floor(begin / data.piece);
      const last = Math.min(count - 1, Math.max(first, Math.ceil(end / data.piece) - 1));
      const sums = [0, 0, 0, 0];
      for (let piece = first; piece <= last; piece++) {
        shares(line.pieces, piece).forEach((share, state) => { sums[state] += share; });
      }
      while (range + 1 < line.whose.length && line.whose[range + 1][0] <= first) range++;
      const vm = line.whose.length ? line.whose[range][1] : null;
      const own = vm === null ? "other" : `v${vm}`;
      const classes = [own, own + " host", pcpu ? "other" : "wait", "v6"];
      const all = Math.max(1, 7 * (last - first + 1));
      let above = y;
      sums.forEach((sum, state) => {
        const tall = high * Math.min(1, sum / all), wide = (width / columns + 0.05).toFixed(2);
        if (tall > 0.3) paths[classes[state]] = (paths[classes[state]] || "") +
          `M${x(begin).toFixed(1)} ${above.toFixed(1)}h${wide}v${tall.toFixed(1)}h-${wide}z`;
        above += tall;
      });
    }
    Object.entries(paths).forEach(([name, path]) => svg.append(node("path", { d: path, class: name })));
  };
  const mark = (stall, label) => {
    const at = shown().findIndex((line) => line.tid === stall.tid && stall.tid !== null);
    const end = stall.begin + stall.length;
    if (at < 0 || end < from || stall.begin > to) return;
    const y = top + at * (high + gap), begin = Math.max(left, x(stall.begin));
    const wide = Math.max(2, Math.min(left + width, x(end)) - begin);
    const tall = label ? high + 4 : 3;
    svg.append(node("rect", { x: begin, y: y - (label ? 2 : 4), width: wide, height: tall,
      class: label ? "found" : "stall" }));
    if (!label) return;
    const right = begin + wide + 16 < left + width;
    svg.append(node("text", { x: right ? begin + wide + 3 : begin - 3, y: y + 13,
      "text-anchor": right ? "start" : "end", class: "number" }, label));
  };
  const draw = () => {
    const rows = shown(), wide = Math.max(300, svg.getBoundingClientRect().width || 1000);
    left = Math.min(170, 16 + 7.6 * Math.max(...rows.map((line) => line.label.length), 6));
    width = wide - left - 12;
    columns = Math.max(100, Math.floor(width / 2));
    const tall = top + 4 + rows.length * (high + gap);
    svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
    svg.setAttribute("height", tall);
    svg.replaceChildren(node("title", {}, figure.querySelector("figcaption").textContent));
    const size = step();
    for (let ns = Math.ceil((from + data.begin) / size) * size; ns <= to + data.begin; ns += size) {
      const at = x(ns - data.begin);
      svg.append(node("path", { d: `M${at.toFixed(1)} ${top - 8}V${tall}`, class: "grid" }));
      svg.append(node("text", { x: at, y: 13, class: "tick",
        "text-anchor": at < left + 20 ? "start" : at > left + width - 20 ? "end" : "middle" }, time(ns, size)));
    }
    rows.forEach(row);
    data.stalls.forEach((stall) => mark(stall));
    data.findings.forEach((finding) => mark(finding, String(finding.number)));
    figure.dataset.from = Math.round(from + data.begin);
    figure.dataset.to = Math.round(to + data.begin);
    const seconds = (ns) => ((ns + data.begin) / 1e9).toFixed(6);
    text.textContent = `--time ${seconds(from)}-${seconds(to)}`;
  };
  const zoom = (a, b) => {
    const least = Math.min(data.length, 20 * Math.max(1, data.piece / 16));
    const middle = (a + b) / 2, half = Math.max(least, b - a) / 2;
    from = Math.max(0, Math.min(middle - half, data.length - 2 * half));
    to = Math.min(data.length, from + 2 * half);
    draw();
  };
  figure.addEventListener("when:show", (event) => {
    const { begin, length } = event.detail;
    zoom(begin - data.begin - length, begin - data.begin + 2 * length);
  });
  figure.querySelector(".whole").addEventListener("click", () => zoom(0, data.length));
  figure.querySelector(".in").addEventListener("click", () =>
    zoom(from + (to - from) / 4, to - (to - from) / 4));
  figure.querySelector(".out").addEventListener("click", () =>
    zoom(from - (to - from) / 2, to + (to - from) / 2));
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    const at = event.clientX - box.left;
    return from + (to - from) * Math.min(1, Math.max(0, (at - left) / width));
  };
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = place(event); });
  svg.addEventListener("pointerup", (event) => {
    const now = place(event);
    if (held !== null && Math.abs(now - held) * width > 5 * (to - from)) {
      zoom(Math.min(held, now), Math.max(held, now));
    }
    held = null;
  });
  const fold = () => {
    every.textContent = folded ? `all ${data.rows.length} rows` : `the worst ${few.length} rows`;
    draw();
  };
  every.hidden = !folded;
  every.addEventListener("click", () => { folded = !folded; fold(); });
  window.addEventListener("resize", draw);
  fold();
});
const show = (button) => {
  const figure = document.querySelector(`figure.when[data-trace="${button.dataset.trace}"]`);
  if (!figure) return;
  const detail = { begin: Number(button.dataset.begin), length: Number(button.dataset.length) };
  figure.dataset.finding = button.dataset.finding;
  figure.dispatchEvent(new CustomEvent("when:show", { detail }));
  figure.scrollIntoView({ block: "start" });
};
document.querySelectorAll("ol.short a").forEach((link) => link.addEventListener("click", () => {
  const folder = document.querySelector(link.getAttribute("href")).closest("details");
  if (folder) folder.open = true;
}));
document.querySelectorAll("button.show").forEach((button) =>
  button.addEventListener("click", () => show(button)));

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws when what was where, from pieces of time: whole, or the part that is zoomed to.
"use strict";
document.querySelectorAll("figure.when").forEach((figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const svg = figure.querySelector("svg");
  const text = figure.querySelector(".shown");
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const names = ["guest", "host", "ready", "blocked"];
  const left = 110, width = 890, high = 18, gap = 6, columns = 445;
  let from = 0, to = data.length;

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
  const time = (ns) => {
    const span = to - from;
    const [unit, name] = span > 2e9 ? [1e9, "s"] : span > 2e6 ? [1e6, "ms"] : [1e3, "µs"];
    return (ns / unit).toFixed(span / unit > 20 ? 0 : 2) + " " + name;
  };
  const x = (ns) => left + (ns - from) * width / (to - from);

  const row = (line, at) => {
    const y = 24 + at * (high + gap), paths = ["", "", "", ""];
    svg.append(node("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, line.label));
    const count = line.pieces.length / 2;
    for (let column = 0; column < columns; column++) {
      const begin = from + (to - from) * column / columns;
      const end = from + (to - from) * (column + 1) / columns;
      const first = Math.floor(begin / data.piece);
      const last = Math.min(count - 1, Math.max(first, Math.ceil(end / data.piece) - 1));
      const sums = [0, 0, 0, 0];
      for (let piece = first; piece <= last; piece++) {
        shares(line.pieces, piece).forEach((share, state) => { sums[state] += share; });
      }
      const all = Math.max(1, 7 * (last - first + 1));
      let top = y;
      sums.forEach((sum, state) => {
        const tall = high * Math.min(1, sum / all);
        if (tall > 0.3) paths[state] += `M${x(begin).toFixed(1)} ${top.toFixed(1)}h${
          (width / columns + 0.05).toFixed(2)}v${tall.toFixed(1)}h-${(width / columns + 0.05).toFixed(2)}z`;
        top += tall;
      });
    }
    const kind = line.tid === null ? "pcpu" : "vcpu";
    paths.forEach((path, state) => {
      if (path) svg.append(node("path", { d: path, class: kind + " " + names[state] }));
    });
  };
  const mark = (stall, label) => {
    const at = data.rows.findIndex((line) => line.tid === stall.tid && stall.tid !== null);
    const end = stall.begin + stall.length;
    if (at < 0 || end < from || stall.begin > to) return;
    const y = 24 + at * (high + gap), begin = Math.max(left, x(stall.begin));
    const wide = Math.max(2, Math.min(left + width, x(end)) - begin);
    const tall = label ? high + 4 : 3;
    svg.append(node("rect", { x: begin, y: y - (label ? 2 : 4), width: wide, height: tall,
      class: label ? "found" : "stall" }));
    if (label) svg.append(node("text", { x: begin + wide + 2, y: y + 13, class: "number" }, label));
  };
  const draw = () => {
    svg.replaceChildren(node("title", {}, figure.querySelector("figcaption").textContent));
    data.rows.forEach(row);
    data.stalls.forEach((stall) => mark(stall));
    data.findings.forEach((finding) => mark(finding, String(finding.number)));
    for (let tick = 0; tick <= 5; tick++) {
      const ns = from + (to - from) * tick / 5;
      svg.append(node("text", { x: x(ns), y: 12, "text-anchor": ["start", "middle", "end"][Math.ceil(tick / 5) + (tick === 5)] },
        time(ns + data.begin)));
    }
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
    const at = (event.clientX - box.left) * 1010 / box.width;
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
  svg.setAttribute("viewBox", `0 0 1010 ${30 + data.rows.length * (high + gap)}`);
  draw();
});
const show = (button) => {
  const figure = document.querySelector(`figure.when[data-trace="${button.dataset.trace}"]`);
  if (!figure) return;
  const detail = { begin: Number(button.dataset.begin), length: Number(button.dataset.length) };
  figure.dataset.finding = button.dataset.finding;
  figure.dispatchEvent(new CustomEvent("when:show", { detail }));
  figure.scrollIntoView({ block: "start" });
};
document.querySelectorAll("button.show").forEach((button) =>
  button.addEventListener("click", () => show(button)));

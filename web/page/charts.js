/* The throughput chart (SVG) and the timeline (canvas, because there may be thousands of bars). */

const SVG = 'http://www.w3.org/2000/svg';

function svgElement(tag, attributes, text) {
  const e = document.createElementNS(SVG, tag);
  for (const name in attributes) e.setAttribute(name, attributes[name]);
  if (text !== undefined) e.textContent = text;
  return e;
}

/* A step of 1, 2 or 5 times a power of ten that divides span into at most n parts. */
function niceStep(span, n) {
  const raw = Math.max(span / n, 1e-9);
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw - 1e-12);
}

/* The same with the usual units of time. */
function timeStep(span, n) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];
  return span / n < 1 ? niceStep(span, n) : steps.find((s) => s >= span / n) || niceStep(span, n);
}

/* The number of digits after the decimal point that makes two steps look different. */
function stepDigits(step) { return step < 1 ? Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)) : 0; }

function axisTime(s, step) {
  if (step < 1) return s.toFixed(stepDigits(step)) + 's';
  if (s < 60) return Math.round(s) + 's';
  const m = Math.floor(s / 60), rest = Math.round(s % 60);
  if (s < 3600) return rest ? m + 'm' + String(rest).padStart(2, '0') : m + 'm';
  return Math.floor(m / 60) + 'h' + (m % 60 ? String(m % 60).padStart(2, '0') : '');
}

/* points: [seconds, tasks done per second, tasks failed per second], in order of time. */
function drawRates(svg, points, from, to) {
  const width = Math.max(svg.clientWidth, 200), height = 180, left = 52, right = 8, top = 10, bottom = 22;
  const most = Math.max(...points.map((p) => p[1]), ...points.map((p) => p[2]), 0) || 1; /* 1 if no task has ended */
  const step = niceStep(most, 4), high = Math.ceil(most / step) * step, span = Math.max(to - from, 1e-9);
  const x = (t) => left + (width - left - right) * (t - from) / span;
  const y = (r) => top + (height - top - bottom) * (1 - r / high);
  const made = [];
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('height', height);
  for (let r = 0; r <= high + step / 2; r += step) {
    made.push(svgElement('line', { class: 'grid', x1: left, x2: width - right, y1: y(r), y2: y(r) }));
    const label = step < 1 ? r.toFixed(stepDigits(step)) : count(Math.round(r));
    made.push(svgElement('text', { x: left - 6, y: y(r) + 4, 'text-anchor': 'end' }, label));
  }
  const tick = timeStep(span, Math.max(2, Math.floor(width / 110)));
  for (let t = Math.ceil(from / tick - 1e-9) * tick; t <= to + 1e-9; t += tick) {
    const anchor = x(t) > width - 30 ? 'end' : 'middle';
    made.push(svgElement('text', { x: x(t), y: height - 6, 'text-anchor': anchor }, axisTime(t, tick)));
  }
  if (points.length > 1) {
    const path = (i) => points.map((p) => x(p[0]).toFixed(1) + ',' + y(p[i]).toFixed(1)).join(' ');
    const first = x(points[0][0]).toFixed(1), last = x(points[points.length - 1][0]).toFixed(1);
    made.push(svgElement('polygon', { class: 'area', points: `${first},${y(0)} ${path(1)} ${last},${y(0)}` }));
    made.push(svgElement('polyline', { class: 'line', points: path(1) }));
    if (points.some((p) => p[2] > 0)) made.push(svgElement('polyline', { class: 'line bad', points: path(2) }));
  }
  svg.replaceChildren(...made);
}

/* --- the text at the pointer -------------------------------------------------------------- */

const tip = element('div', 'tip');
tip.hidden = true;
tip.setAttribute('role', 'status');

function showTip(event, text) {
  if (!tip.isConnected) document.body.append(tip);
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 8);
  const above = event.clientY + 16 + box.height > document.documentElement.clientHeight;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = (above ? event.clientY - box.height - 12 : event.clientY + 16) + 'px';
}

/* --- rows over time -------------------------------------------------------------------------- */

/* A canvas with one row per lane and a time axis below. textAt(lane, time, slack, height) returns the text for a point.
   height: where the point is in its row, from 0 (top) to 1. */
class Rows {
  constructor(canvas, textAt) {
    this.canvas = canvas;
    this.lanes = [];
    this.from = 0;
    this.to = 1;
    canvas.addEventListener('pointermove', (e) => this.hover(e, textAt));
    canvas.addEventListener('pointerleave', (e) => showTip(e, ''));
  }

  get rowHeight() {
    const n = this.lanes.length;
    return n <= 8 ? Math.min(44, Math.max(24, Math.floor(176 / n))) : n <= 24 ? 17 : 12;
  }

  /* Prepares the canvas for drawing in CSS pixels. Returns its context, its size and a function that finds colours. */
  begin() {
    const ratio = window.devicePixelRatio || 1, width = Math.max(this.canvas.clientWidth, 200);
    const height = this.lanes.length * this.rowHeight + 22;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = height + 'px';
    }
    const g = this.canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue('--' + name).trim();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    this.left = Math.min(10 + 6.4 * Math.max(3, ...this.lanes.map((l) => l.label.length)), width * 0.3);
    this.width = width;
    return { g, width, height, colour };
  }

  x(t) { return this.left + (this.width - this.left - 4) * (t - this.from) / Math.max(this.to - this.from, 1e-9); }

  /* paint(g, lane, top, height, colour) draws the inside of a row. */
  draw(paint) {
    const { g, width, height, colour } = this.begin(), row = this.rowHeight;
    const tick = timeStep(this.to - this.from, Math.max(2, Math.floor(width / 110)));
    g.font = Math.min(11, row - 2) + 'px system-ui, sans-serif';
    g.textBaseline = 'middle';
    this.lanes.forEach((lane, i) => {
      g.fillStyle = colour('faint');
      g.fillText(lane.label, 0, i * row + row / 2, this.left - 4);
      g.fillStyle = colour('idle');
      g.fillRect(this.left, i * row + 1, width - this.left - 4, row - 2);
      paint(g, lane, i * row + 1, row - 2, colour);
    });
    g.font = '11px system-ui, sans-serif';
    for (let t = Math.ceil(this.from / tick - 1e-9) * tick; t <= this.to + 1e-9; t += tick) {
      const label = axisTime(t, tick), half = g.measureText(label).width / 2;
      g.fillStyle = colour('line');
      g.fillRect(Math.round(this.x(t)), 0, 1, height - 20);
      g.fillStyle = colour('faint');
      g.fillText(label, Math.min(Math.max(this.x(t) - half, 0), width - 2 * half), height - 9);
    }
  }

  hover(event, textAt) {
    const box = this.canvas.getBoundingClientRect(), row = this.rowHeight;
    const y = (event.clientY - box.top) / row, lane = this.lanes[Math.floor(y)];
    const scale = (this.to - this.from) / Math.max(this.width - this.left - 4, 1);
    const at = this.from + (event.clientX - box.left - this.left) * scale;
    showTip(event, lane && at >= this.from && at <= this.to ? textAt(lane, at, 3 * scale, y % 1) : '');
  }
}

/* The bar at a time, or the nearest bar that is at most slack away. If two bars are possible, returns the later one. */
function barAt(bars, at, slack) {
  let best = null, distance = slack;
  for (const bar of bars) {
    const d = at < bar.start ? bar.start - at : at > bar.end ? at - bar.end : 0;
    if (d <= distance) { best = bar; distance = d; }
  }
  return best;
}

const MOST_STACKED = 8;

/* Whether two bars were in flight at the same time. Bar a begins first. The tasks of a batch begin together, and are
   drawn as one bar. The times of tasks in a batch, and of tasks that follow each other, may differ a little. */
function overlap(a, b) {
  const little = 0.0005 + 0.01 * Math.min(a.end - a.start, b.end - b.start);
  return b.start - a.start > little && a.end - b.start > little;
}

/* Sets the member `row` of each bar, so that tasks in flight at the same time are drawn in different rows of their lane. If
   there are too many, some are drawn over others. Returns the number of rows. */
function stackBars(bars) {
  const ends = [], sorted = [...bars].sort((a, b) => a.start - b.start);
  if (!sorted.some((bar, i) => i > 0 && overlap(sorted[i - 1], bar))) return 1;
  for (const bar of sorted) {
    let row = ends.findIndex((end) => end <= bar.start);
    if (row < 0) row = ends.length < MOST_STACKED ? ends.length : ends.indexOf(Math.min(...ends));
    ends[row] = Math.max(ends[row] || 0, bar.end);
    bar.row = row;
  }
  return Math.max(1, ends.length);
}

/* Draws the bars of one lane, which has `stacked` rows. Each is at least a pixel wide. Failed tasks are drawn last, so that
   they are visible. */
function paintBars(rows, g, bars, top, height, colour, stacked = 1) {
  const right = rows.width - 4, each = height / stacked;
  for (const bar of [...bars.filter((b) => !b.failure), ...bars.filter((b) => b.failure)]) {
    if (bar.end < rows.from || bar.start > rows.to) continue;
    const x = Math.max(rows.x(bar.start), rows.left), end = Math.min(rows.x(bar.end), right);
    const width = Math.max(end - x - (end - x > 4 ? 1 : 0), bar.failure ? 2 : 1);
    g.fillStyle = colour(bar.failure ? 'bad' : bar.running ? 'good-soft' : 'good');
    const y = top + (stacked > 1 ? (bar.row || 0) * each : 0), margin = bar.failure || each < 4 ? 0 : each < 12 ? 0.5 : 1;
    g.fillRect(x, y + margin, width, each - 2 * margin);
  }
}

'use strict';

/* Functions for both pages. All text is put into the page with textContent, because names of tasks and error messages
   may contain anything. */

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

function byId(id) { return document.getElementById(id); }

/* Changes the text only if it differs. So the user can select text although the page is redrawn ten times a second. */
function setText(e, text) {
  text = String(text);
  if (e.textContent !== text) e.textContent = text;
}

function setClass(e, name) { if (e.className !== name) e.className = name; }

const COUNT = new Intl.NumberFormat('en-US');
function count(n) { return COUNT.format(n); }

/* 0.5s, 12s, 3m05s, 2h07m, 4d03h, as in the summary of a run in the terminal. */
function duration(s) {
  const two = (n) => String(n).padStart(2, '0');
  if (!(s >= 0)) return '–';
  if (s === 0) return '0s';
  if (s < 0.001) return (s * 1e6).toFixed(0) + 'µs';
  if (s < 0.1) return (s * 1000).toFixed(s < 0.01 ? 1 : 0) + 'ms';
  if (s < 10) return s.toFixed(1) + 's';
  s = Math.round(s);
  if (s < 60) return s + 's';
  if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
  if (s < 86400) return Math.floor(s / 3600) + 'h' + two(Math.floor(s / 60) % 60) + 'm';
  return Math.floor(s / 86400) + 'd' + two(Math.floor(s / 3600) % 24) + 'h';
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < 4) { n /= 1024; i++; }
  return (n < 10 && i > 0 ? n.toFixed(1) : n.toFixed(0)) + ' ' + units[i];
}

/* At least two significant digits, because a task may take an hour. The terminal shows rates in the same way. */
function rate(r) {
  const digits = r < 5e-7 ? 0 : Math.max(0, 1 - Math.floor(Math.log10(r) + 1e-9));
  return (r >= 99.5 ? count(Math.round(r)) : r.toFixed(digits)) + '/s';
}

function plural(n, one, many) { return count(n) + ' ' + (n === 1 ? one : many); }

/* A badge with the kind of failure. */
function failureBadge(name) { return element('span', name === 'timeout' ? 'badge slow' : 'badge bad', name); }

/* Fills a row of a table with cells [name, class, text]. The names are shown on narrow screens, where there are no
   columns. */
function fillRow(row, cells) {
  while (row.children.length < cells.length) row.append(element('td'));
  cells.forEach(([name, className, text], i) => {
    const td = row.children[i];
    if (td.dataset.name !== name) td.dataset.name = name;
    setClass(td, className);
    if (text instanceof Node) { if (td.firstChild !== text) td.replaceChildren(text); }
    else if (td.firstElementChild || td.textContent !== String(text)) td.textContent = text;
  });
}

function tiles(parent, list) {
  parent.replaceChildren(...list.map(([id, name]) => {
    const div = element('div');
    const dd = element('dd', '', '–');
    dd.id = id;
    div.append(element('dt', '', name), dd);
    return div;
  }));
}

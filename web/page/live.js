/* The page of a run that has not ended. The server sends everything once (state), and then the news (update, end). */

const MOST_BARS = 20000, MOST_FAILURES = 100, MOST_REQUESTS = 64, MOST_POINTS = 600, MOST_NODES = 500;

const KINDS = {
  initializing: 'slow', processing: 'good', idle: 'idle', finished: 'idle', error: 'bad', restarting: 'slow', quarantined: 'bad',
};

const HELD = { paused: 'paused: nothing new starts', draining: 'draining: ends after the running tasks',
  idle: 'idle: waits for the next run' };

const run = {
  view: null, bars: new Map(), nBars: 0, failures: [], notShown: 0, requests: [], nRequests: 0, missedTasks: 0, points: [], step: 0.9,
};
let ended = false, lost = false, needsToken = false, drawn = 0;

tiles(byId('tiles'), [
  ['completed', 'done'], ['failed', 'failed'], ['timeouts', 'timed out'], ['retried', 'retried'], ['running', 'running'],
  ['pending', 'waiting'], ['rate', 'throughput'], ['elapsed', 'elapsed'], ['eta', 'time left'], ['skipped', 'skipped'],
  ['cancelled', 'cancelled'], ['restarts', 'restarts'], ['crashes', 'crashes'], ['limit', 'time limit'],
]);
const COUNTS = ['completed', 'failed', 'timeouts', 'retried', 'running', 'pending', 'skipped', 'cancelled', 'restarts', 'crashes'];

/* --- received data -------------------------------------------------------------------------- */

function addTask([id, worker, gpu, start, end, attempt, failure, again]) {
  const bar = { id, gpu, start, end, attempt, failure, again };
  if (!run.bars.has(worker)) run.bars.set(worker, []);
  run.bars.get(worker).push(bar);
  run.nBars++;
}

/* Drops the older half of the bars if there are too many. */
function trimBars() {
  if (run.nBars <= MOST_BARS) return;
  run.nBars = 0;
  for (const [worker, bars] of run.bars) {
    run.bars.set(worker, bars.slice(Math.ceil(bars.length / 2)));
    run.nBars += run.bars.get(worker).length;
  }
}

function addPoint(view) {
  const s = view.stats, last = run.points[run.points.length - 1];
  if (!s.start_ns || (last && view.seconds < last[0] + run.step)) return;
  run.points.push([view.seconds, s.completed, s.failed + s.timeouts]);
  if (run.points.length > MOST_POINTS) {
    run.points = run.points.filter((_, i) => i % 2 === 0);
    run.step *= 2;
  }
}

function take(view, whole) {
  if (whole) {
    run.bars.clear();
    run.nBars = 0;
    run.failures = [];
    run.requests = [];
    run.notShown = run.missedTasks = run.nRequests = 0;
  }
  run.view = view;
  view.tasks.forEach(addTask);
  trimBars();
  run.failures.push(...view.failures);
  run.notShown += view.failures_missed + Math.max(0, run.failures.length - MOST_FAILURES);
  run.failures = run.failures.slice(-MOST_FAILURES);
  run.missedTasks += view.tasks_missed;
  run.nRequests += view.requests_missed + view.requests.length;
  run.requests = [...run.requests, ...view.requests].slice(-MOST_REQUESTS);
  addPoint(view);
  ended = ended || view.ended;
  lost = false;
  redraw();
}

/* --- figures ----------------------------------------------------------------------------------- */

/* The server computes progress, pace and time left, as it does for the terminal. */
function showFigures() {
  const v = run.view, s = v.stats, f = v.figures, known = f.part !== null;
  const r = f.rate === null ? f.mean_rate || 0 : f.rate, left = f.eta === null ? NaN : f.eta;
  for (const name of COUNTS) setText(byId(name), count(s[name]));
  for (const name of ['failed', 'timeouts', 'crashes']) setClass(byId(name).parentElement, s[name] > 0 ? 'warn' : '');
  byId('cancelled').parentElement.hidden = s.cancelled === 0; /* shown only if the run was stopped early */
  byId('limit').parentElement.hidden = s.task_timeout_ms === 0;
  setText(byId('limit'), duration(s.task_timeout_ms / 1000));
  setText(byId('rate'), rate(r));
  setText(byId('elapsed'), duration(v.seconds));
  setText(byId('eta'), duration(left));
  const percent = known ? 100 * f.part : 0, work = f.work_total ? ' of the work' : '';
  const far = `(${Math.floor(percent * 10 + 1e-9) / 10} %${work})`;
  setText(byId('progress-text'), f.total !== null
    ? `${count(f.passed)} of ${plural(f.total, 'task', 'tasks')} ${far}`
    : `${plural(f.passed, 'task', 'tasks')} so far${known ? ' ' + far : ''}`);
  setText(byId('time-left'), ended ? 'ended after ' + duration(v.seconds) : left > 0 ? duration(left) + ' left' : '');
  showBar(known ? Math.max(f.total, f.passed) : 0, s, f);
  setText(byId('rate-text'), rate(r) + (f.rate === null ? ' on average' : ' now'));
}

/* If the work is known, the filled part of the bar is the finished part of the work, not of the tasks. The tasks that
   ended share the filled part, and the other tasks share the rest. */
function showBar(all, s, f) {
  const bar = byId('bar'), parts = bar.children, bad = s.failed + s.timeouts, done = s.completed + s.skipped;
  const ended = f.passed > 0 ? f.part * all / f.passed : 0, left = all > f.passed ? (1 - f.part) * all / (all - f.passed) : 0;
  const width = (part, n) => { part.style.width = (all ? 100 * n / all : 0) + '%'; };
  setClass(bar, all > 0 ? 'bar' : 'bar unknown');
  width(parts[0], done * ended);
  width(parts[1], bad * ended);
  width(parts[2], Math.max(0, Math.min(s.running, all - done - bad)) * left);
  if (all > 0) bar.setAttribute('aria-valuenow', (100 * f.part).toFixed(1));
  else bar.removeAttribute('aria-valuenow');
}

function showStatus() {
  const v = run.view, badge = byId('status');
  const [text, kind] = needsToken ? ['token needed', 'slow'] : ended ? ['ended', 'idle'] : lost ? ['connection lost, trying again', 'bad']
    : !v ? ['connecting', 'idle'] : HELD[v.state] ? [HELD[v.state], 'slow'] : v.stale ? ['a callback is slow', 'slow']
    : ['running', 'good'];
  setText(badge, text);
  setClass(badge, 'badge ' + kind);
  if (!v) return;
  setText(byId('job'), v.job || 'gpu-dispatch');
  setText(byId('about'), `process ${v.pid}, since ${new Date(v.started * 1000).toLocaleString()}` +
    (ended ? '. These are the last figures.' : ''));
  document.title = (ended ? 'ended: ' : HELD[v.state] ? v.state + ': ' : '') + (v.job || 'gpu-dispatch');
}

/* --- workers -------------------------------------------------------------------------------------- */

function sortedWorkers() {
  return [...run.view.workers].sort((a, b) => a.gpu_id - b.gpu_id || a.worker_id - b.worker_id);
}

/* Updates the text and the colour of the row's badge. Makes the badge if the row has no badge yet. */
function statusCell(row, w) {
  const badge = row.statusBadge || (row.statusBadge = element('span'));
  setClass(badge, 'badge ' + (KINDS[w.status] || 'idle'));
  setText(badge, w.status);
  return badge;
}

/* If several tasks are in flight, the oldest is shown. */
function taskText(w) {
  if (w.current_task === null) return w.idle ? w.idle : '';
  return (w.in_flight > 1 ? w.in_flight + ' in flight, the oldest is ' : '') + '#' + w.current_task + (w.task ? ' ' + w.task : '') +
    (w.idle ? ' (' + w.idle + ')' : '');
}

/* "0", or "0+1" for a group of GPUs. */
function gpuLabel(w) { return w.gpus.join('+'); }

/* The GPUs of the worker with this id. gpu: the first of them, which is shown if there is no such worker. */
function gpusOfWorker(id, gpu) {
  const w = run.view.workers.find((x) => x.worker_id === id);
  return w ? gpuLabel(w) : gpu;
}

/* The figures of a worker's devices: sums, and the mean use. A figure that is missing for one device is null. devices:
   a map by gpu_id. */
function deviceFigures(w, devices) {
  const list = w.gpus.map((id) => devices.get(id)).filter((d) => d);
  const total = (name) => (list.length === 0 || list.some((d) => d[name] === null) ? null : list.reduce((n, d) => n + d[name], 0));
  const use = total('utilization');
  return {
    name: list.length === 0 ? '' : list.length > 1 ? `(${list.length} × ${list[0].name})` : list[0].name,
    utilization: use === null ? null : Math.round(use / list.length), memory_total: total('memory_total'), memory_free: total('memory_free'),
  };
}

function showWorkers() {
  const body = byId('workers'), workers = sortedWorkers(), v = run.view;
  const devices = new Map(v.devices.map((d) => [d.gpu_id, d]));
  while (body.children.length > workers.length) body.lastElementChild.remove();
  while (body.children.length < workers.length) body.append(element('tr'));
  workers.forEach((w, i) => {
    const row = body.children[i], d = deviceFigures(w, devices);
    const busy = w.current_task !== null;
    fillRow(row, [
      ['GPU', 'tight', gpuLabel(w) + (d.name ? ' ' + d.name : '')],
      ['worker', 'tight', w.worker_id],
      ['status', 'tight', statusCell(row, w)],
      ['task', busy ? 'what mono' : 'what why', taskText(w)],
      ['for', 'num', w.since === null || ended ? '' : duration(Math.max(0, v.seconds - w.since))],
      ['done', 'num', count(w.completed)],
      ['failed', 'num', count(w.failed + w.timeouts)],
      ['last', 'num', w.last_seconds === null ? '' : duration(w.last_seconds)],
      ['GPU use', 'num', d.utilization !== null ? d.utilization + ' %' : ''],
      ['memory', 'num', d.memory_total !== null ? bytes(d.memory_total - d.memory_free) + ' of ' + bytes(d.memory_total) : ''],
    ]);
  });
  const busy = workers.filter((w) => w.status === 'processing').length;
  setText(byId('workers-text'), `${busy} of ${workers.length} processing`);
}

/* --- the queue, if the run has one --------------------------------------------------------------------- */

const NODE_KINDS = { running: 'good', draining: 'slow', lost: 'bad', left: 'idle' };
const queue = { view: null, nodes: null };

/* What is not known now keeps its last value. */
function takeQueue(view) {
  const before = queue.view || {};
  queue.view = { ...view, tasks: view.tasks ?? before.tasks ?? null, records: view.records ?? before.records ?? null };
  queue.nodes = view.nodes || queue.nodes;
  redraw();
}

function works(node) { return node.state === 'running' || node.state === 'draining'; }

function nodeBadge(row, node) {
  const badge = row.nodeBadge || (row.nodeBadge = element('span'));
  setClass(badge, 'badge ' + (NODE_KINDS[node.state] || 'idle'));
  setText(badge, node.state);
  return badge;
}

/* A link to the page of a node, which asks for its own token. Anybody who can write to the queue chooses the address, so
   only that of a web page becomes a link. */
function nodeLink(row, node) {
  if (!/^https?:\/\//.test(node.http || '')) return '';
  if (node.http === location.origin + '/') return 'this page';
  const link = row.nodeLink || (row.nodeLink = element('a', '', 'open'));
  link.rel = 'noopener noreferrer';
  link.target = '_blank';
  if (link.getAttribute('href') !== node.http) link.setAttribute('href', node.http);
  if (link.title !== node.http) link.title = node.http;
  return link;
}

/* Those that work come first. The server has sorted them by host. */
function showNodes() {
  const body = byId('nodes'), all = queue.nodes || [], nodes = [...all].sort((a, b) => works(b) - works(a)).slice(0, MOST_NODES);
  while (body.children.length > nodes.length) body.lastElementChild.remove();
  while (body.children.length < nodes.length) body.append(element('tr'));
  nodes.forEach((n, i) => {
    const row = body.children[i];
    fillRow(row, [
      ['host', 'what', n.host + ' · ' + n.pid],
      ['state', 'tight', nodeBadge(row, n)],
      ['workers', 'num', count(n.workers)],
      ['busy', 'num', works(n) ? count(n.busy) : ''],
      ['tasks/s', 'num', works(n) ? rate(n.tasks_per_second) : ''],
      ['done', 'num', count(n.done)],
      ['failed', 'num', count(n.failed)],
      ['held', 'num', n.state === 'left' ? '' : count(n.held)],
      ['seen', 'num', n.age_seconds < 10 ? 'now' : duration(n.age_seconds) + ' ago'],
      ['page', 'tight', nodeLink(row, n)],
      ['note', 'what', n.note || ''],
    ]);
  });
  const alive = all.filter(works).length, shown = nodes.length < all.length ? `, the first ${nodes.length} are shown` : '';
  setText(byId('nodes-text'), queue.nodes === null ? 'not known yet' : `${alive} of ${all.length} at work${shown}`);
}

function showQueue() {
  const q = queue.view;
  byId('queue-section').hidden = q === null;
  if (q === null) return;
  const sum = (name) => (queue.nodes || []).filter(works).reduce((n, x) => n + x[name], 0);
  const parts = [
    q.tasks === null ? '' : `${count(q.records)} of ${plural(q.tasks, 'task message', 'task messages')} recorded`,
    queue.nodes === null ? '' : `${count(sum('busy'))} of ${plural(sum('workers'), 'worker', 'workers')} busy, ${rate(sum('tasks_per_second'))}`,
    q.unpublished > 0 ? `${plural(q.unpublished, 'record message', 'record messages')} of this node not confirmed by the server` : '',
    q.connected || ended ? '' : 'this node has no connection to the server of the queue',
  ];
  setText(byId('queue-text'), parts.filter((p) => p).join('; '));
  setClass(byId('queue-text'), q.connected || ended ? 'note' : 'note bad');
  showNodes();
}

/* --- timeline, chart, failures ---------------------------------------------------------------------- */

const timeline = new Rows(byId('timeline'), (lane, at, slack, height) => {
  const bar = barAt(lane.rows === 1 ? lane.bars : lane.bars.filter((b) => b.row === Math.floor(height * lane.rows)), at, slack);
  if (!bar) return '';
  return `task ${bar.id}, ${bar.running ? 'running for ' : ''}${duration(bar.end - bar.start)}\n` +
    `from ${duration(bar.start)}, worker ${lane.worker} on GPU ${lane.gpu}` +
    (bar.attempt > 1 ? `, attempt ${bar.attempt}` : '') + (bar.failure ? `\n${bar.failure}${bar.again ? ', tried again' : ''}` : '');
});

function barsOf(w) {
  const bars = run.bars.get(w.worker_id) || [];
  if (w.current_task === null || w.since === null || ended) return bars;
  return [...bars, { id: w.current_task, start: w.since, end: run.view.seconds, running: true }];
}

function showTimeline() {
  const workers = sortedWorkers(), shared = new Set(workers.map((w) => w.gpu_id)).size < workers.length;
  const window_s = Number(byId('window').value), now = run.view.seconds;
  let oldest = now;
  for (const bars of run.bars.values()) if (bars.length) oldest = Math.min(oldest, bars[0].start);
  timeline.lanes = workers.map((w) => {
    const bars = barsOf(w);
    return {
      label: 'GPU ' + gpuLabel(w) + (shared ? ' · ' + w.worker_id : ''), gpu: gpuLabel(w), worker: w.worker_id, bars,
      rows: stackBars(bars),
    };
  });
  timeline.to = Math.max(now, 1);
  timeline.from = window_s ? Math.max(0, timeline.to - window_s) : Math.min(oldest, timeline.to - 1);
  timeline.draw((g, lane, top, height, colour) => paintBars(timeline, g, lane.bars, top, height, colour, lane.rows));
  const note = byId('timeline-note');
  note.hidden = run.missedTasks === 0;
  setText(note, `${plural(run.missedTasks, 'task is', 'tasks are')} not drawn: only some tasks of a fast run are drawn.`);
}

function showRates() {
  const p = run.points, points = [], reach = Math.max(3, Math.ceil(p.length / 120));
  for (let i = 1; i < p.length; i++) {
    const a = p[Math.max(0, i - reach)], b = p[i], t = b[0] - a[0];
    points.push([b[0], (b[1] - a[1]) / t, (b[2] - a[2]) / t]);
  }
  drawRates(byId('rates'), points, 0, Math.max(run.view.seconds, 1));
}

function failureCard(f) {
  const card = element('div', 'failure'), line = element('p');
  line.append(failureBadge(f.failure), ` task ${f.task_id}, worker ${f.worker_id} on GPU ${gpusOfWorker(f.worker_id, f.gpu_id)}, attempt ${f.attempt}, ` +
    `after ${duration(f.end - f.start)}`);
  card.append(line, element('p', 'mono', f.input));
  if (f.error) card.append(element('pre', '', f.error));
  return card;
}

let cards = [];
function showFailures() {
  const box = byId('failures'), before = new Map(cards.map((c) => [c.failure, c.card]));
  const s = run.view.stats, all = s.failed + s.timeouts;
  const want = run.failures.slice().reverse();
  if (cards.length !== want.length || (want.length && cards[0].failure !== want[0])) {
    cards = want.map((failure) => ({ failure, card: before.get(failure) || failureCard(failure) }));
    box.replaceChildren(...cards.map((c) => c.card));
  }
  setText(byId('failures-text'), all === 0 ? 'none' : want.length < all ? `the last ${want.length} of ${count(all)}` : count(all));
}

/* The newest first. */
function showRequests() {
  const body = byId('requests'), list = run.requests.slice().reverse();
  byId('requests-section').hidden = list.length === 0;
  while (body.children.length < list.length) body.append(element('tr'));
  while (body.children.length > list.length) body.lastElementChild.remove();
  list.forEach((r, i) => {
    const row = body.children[i], badge = row.badge || (row.badge = element('span'));
    setClass(badge, 'badge ' + (r.ok ? 'idle' : 'bad'));
    setText(badge, r.ok ? 'done' : 'refused');
    fillRow(row, [['at', 'num', duration(r.at)], ['outcome', 'tight', badge], ['request', 'wide', r.message]]);
  });
  setText(byId('requests-text'), list.length < run.nRequests ? `the last ${list.length} of ${count(run.nRequests)}` : count(list.length));
}

/* --- drawing, at most once per frame ------------------------------------------------------------------- */

let wanted = false;
/* The chart and the timeline are side by side if the timeline has a number of rows in this range. Otherwise one of them
   would be much taller than the other, so the chart is above the timeline. */
const ROWS_BESIDE = [4, 10];

function arrangeCharts() {
  const rows = run.view.workers.length;
  byId('charts').classList.toggle('stacked', rows < ROWS_BESIDE[0] || rows > ROWS_BESIDE[1]);
}

function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    showStatus();
    if (!run.view) return;
    showFigures();
    showQueue();
    showWorkers();
    arrangeCharts();
    showTimeline();
    showRates();
    showRequests();
    showFailures();
    document.documentElement.dataset.drawn = String(++drawn);
    document.documentElement.dataset.sequence = String(run.view.sequence);
  });
}

/* --- the token ------------------------------------------------------------------------------------------ */

/* The token is in the address after the #. The browser does not send that part to any server. The page removes it from
   the address at once, so that it is not in the history or in a copied link. Only this tab stores it, for a reload of
   the page. */

let token = null;

function keepToken(text) {
  token = text;
  try { sessionStorage.setItem('token', text); } catch { /* the page will ask for the token again */ }
}

function keptToken() {
  try { return sessionStorage.getItem('token'); } catch { return null; }
}

/* Finds the token in a pasted text: the whole address, or the token alone. */
function tokenIn(text) { return text.trim().replace(/^.*[#?&]token=/, ''); }

/* Whether the text has only characters that a token may have. All of them may be sent in a header. */
function isToken(text) { return /^[A-Za-z0-9._~-]+$/.test(text); }

function readAddress() {
  const given = location.hash.startsWith('#token=') ? tokenIn(location.hash) : '';
  if (isToken(given)) {
    keepToken(given);
    history.replaceState(null, '', location.pathname);
  } else if (token === null) {
    token = keptToken();
  }
  return token !== null;
}

function askForToken(note) {
  needsToken = true;
  byId('ask').hidden = false;
  document.querySelector('main').hidden = true;
  setText(byId('token-note'), note);
  showStatus();
  byId('token').focus();
}

function useToken() {
  needsToken = false;
  byId('ask').hidden = true;
  document.querySelector('main').hidden = false;
  byId('token').value = '';
  showStatus();
  listen();
}

byId('token-form').addEventListener('submit', (e) => {
  const given = tokenIn(byId('token').value);
  e.preventDefault();
  if (isToken(given)) {
    keepToken(given);
    useToken();
  } else {
    askForToken('A token may contain only letters, digits and -._~');
  }
});

/* --- the connection ---------------------------------------------------------------------------------------- */

const TRY_AGAIN_MS = 2000, QUEUE_MS = 2000;
let listening = null; /* the AbortController of the present connection */

function ask(path, signal) {
  return fetch(path, { headers: { Authorization: 'Bearer ' + token }, cache: 'no-store', signal });
}

function fetchHistory() {
  ask('api/history').then((r) => r.json()).then((h) => {
    const last = h.samples.length ? h.samples[h.samples.length - 1][0] : -1;
    run.points = h.samples.map((x) => x.slice(0, 3)).concat(run.points.filter((p) => p[0] > last + h.step));
    run.step = h.step || run.step;
    redraw();
  }).catch(() => {}); /* the chart then begins at this moment */
}

/* Asks for the queue until the run has ended or the connection is replaced. For a run without a queue the server
   answers null. */
async function watchQueue(signal) {
  while (!ended && !signal.aborted) {
    try {
      const answer = await ask('api/queue', signal);
      const view = answer.ok ? await answer.json() : undefined;
      if (view === null) return;
      if (view) takeQueue(view);
    } catch { /* listen() shows that the connection was lost */ }
    await new Promise((done) => setTimeout(done, QUEUE_MS));
  }
}

function takeEvent(text) {
  const fields = new Map(text.split('\n').map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]));
  const event = fields.get('event'), view = JSON.parse(fields.get('data'));
  ended = ended || event === 'end';
  take(view, event === 'state');
  if (event === 'state') fetchHistory();
}

/* Reads events until the server closes the connection. An EventSource would do the same, but cannot send the token. */
async function readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (text + part.value).split('\n\n');
    text = events.pop();
    events.forEach(takeEvent);
  }
}

/* Listens until the run has ended, listen() is called again, or the token is refused. */
async function listen() {
  if (listening) listening.abort();
  const own = listening = new AbortController();
  let watched = false;
  while (!ended && !own.signal.aborted) {
    try {
      const answer = await ask('api/events', own.signal);
      if (answer.status === 401) {
        askForToken('That is not the token of this run.');
        return;
      }
      if (!answer.ok) throw new Error(await answer.text());
      if (!watched) watchQueue(own.signal);
      watched = true;
      await readEvents(answer.body);
    } catch (e) {
      if (own.signal.aborted) return;
    }
    lost = !ended;
    redraw();
    if (!ended) await new Promise((done) => setTimeout(done, TRY_AGAIN_MS));
  }
}

window.addEventListener('hashchange', () => { if (location.hash && readAddress()) useToken(); });
byId('window').addEventListener('change', redraw);
window.addEventListener('resize', redraw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
if (readAddress()) listen();
else askForToken('');

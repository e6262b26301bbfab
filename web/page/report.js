/* The page of a run that is over. Its data are in the page. gpu-dispatch report has already reduced them. */

const data = JSON.parse(byId('data').textContent);
data.gpus.sort((a, b) => a.place - b.place || a.gpu - b.gpu);

/* The machines. A machine that had several shards of the list has a place for each of them. */
const places = data.places.map((p) => p.host +
  (p.shard && data.places.filter((q) => q.host === p.host).length > 1 ? ' shard ' + p.shard : ''));
const several = places.length > 1;
function gpuName(gpu, place) { return (several ? places[place] + ' · ' : '') + (gpu < 0 ? 'none' : 'GPU ' + gpu); }

tiles(byId('tiles'), [
  ['done', 'done'], ['failed', 'failed'], ['attempts', 'attempts'], ['elapsed', 'elapsed'], ['rate', 'throughput'],
  ['busy', 'time in tasks'], ['mean', 'mean time'], ['mean-use', 'mean use'], ['skipped', 'skipped'],
]);

function when(unix) { return unix > 0 ? new Date(unix * 1000).toLocaleString() : 'an unknown time'; }

function showSummary() {
  const ends = data.done + data.failed, all = Math.max(data.all, ends);
  const use = data.gpus.reduce((sum, g) => sum + g.busy_seconds, 0) /
    Math.max(data.seconds * data.gpus.reduce((n, g) => n + g.workers, 0), 1e-9);
  const set = (id, text) => setText(byId(id), text);
  set('done', count(data.done));
  set('failed', count(data.failed));
  setClass(byId('failed').parentElement, data.failed > 0 ? 'warn' : '');
  set('attempts', count(data.attempts));
  set('elapsed', duration(data.seconds));
  set('rate', data.seconds > 0 ? rate(ends / data.seconds) : '–');
  set('busy', duration(data.busy_seconds));
  set('mean', ends > 0 ? duration(data.busy_seconds / ends) : '–');
  set('mean-use', data.gpus.length ? (100 * Math.min(use, 1)).toFixed(1) + ' %' : '–');
  set('skipped', count(data.skipped));
  const name = (data.command || data.file).replace(/^-- /, '');
  set('job', name);
  document.title = 'gpu-dispatch report: ' + name;
  set('status', data.end || (data.held ? 'still running' : 'was killed'));
  setClass(byId('status'), 'badge ' + (data.end === 'finished' ? 'good' : data.end || data.held ? 'slow' : 'bad'));
  const first = data.runs[0];
  set('about', `${data.file}, started ${when(first ? first.started : 0)}; report of ${when(data.made)}`);
  set('progress-text', `${count(ends)} of ${plural(all, 'task', 'tasks')} ended`);
  if (data.not_in_input > 0) {
    byId('gone-note').hidden = false;
    set('gone-note', `${plural(data.not_in_input, 'task was', 'tasks were')} not in the input of the last run.`);
  }
  byId('bar').children[0].style.width = 100 * data.done / Math.max(all, 1) + '%';
  byId('bar').children[1].style.width = 100 * data.failed / Math.max(all, 1) + '%';
  if (data.runs.length > 1) {
    byId('runs-note').hidden = false;
    set('runs-note', several ? `${data.runs.length} runs, on ${plural(new Set(data.places.map((p) => p.host)).size, 'machine', 'machines')}. ` +
      'Times without any run are left out.' :
      `${data.runs.length} runs are in this journal. They are shown one after the other, without the time between them: ` +
      data.runs.slice(0, 12).map((r) => `run ${r.run} from ${duration(r.offset)} on (started ${when(r.started)})`).join(', ') +
      (data.runs.length > 12 ? ', …' : '') + '.');
  }
}

function showRates() {
  const done = data.throughput.done, failed = data.throughput.failed, points = [];
  /* Choose the number of points so that each has a few tasks. */
  const steps = Math.min(200, Math.max(8, (data.done + data.failed) / 8)), group = Math.ceil(done.length / steps);
  const sum = (list, i) => list.slice(i, i + group).reduce((a, n) => a + n, 0);
  for (let i = 0; i < done.length; i += group) {
    const t = Math.min(group, done.length - i) * data.bucket_seconds;
    points.push([i * data.bucket_seconds + t / 2, sum(done, i) / t, sum(failed, i) / t]);
  }
  drawRates(byId('rates'), points, 0, Math.max(data.seconds, 1e-3));
}

/* --- use of the GPUs ------------------------------------------------------------------------- */

const use = new Rows(byId('use'), (lane, at) => {
  const i = Math.min(Math.floor(at / data.bucket_seconds), lane.use.length - 1);
  return `${lane.label}: ${lane.use[i]} % at ${duration(at)}`;
});

function drawUse(rows, lanes) {
  const style = getComputedStyle(document.documentElement), heat = style.getPropertyValue('--heat').trim();
  rows.lanes = lanes;
  rows.to = Math.max(data.seconds, 1e-3);
  rows.draw((g, lane, top, height) => {
    lane.use.forEach((percent, i) => {
      if (percent <= 0) return;
      const x = Math.round(rows.x(i * data.bucket_seconds)), end = Math.round(rows.x((i + 1) * data.bucket_seconds));
      g.fillStyle = `rgba(${heat}, ${0.12 + 0.88 * percent / 100})`;
      g.fillRect(x, top, Math.max(end - x, 1), height);
    });
  });
}

function showUse() {
  drawUse(use, data.gpus.map((g) => ({ label: gpuName(g.gpu, g.place), gpu: g.gpu, use: g.use })));
  setText(byId('use-note'), `in steps of ${duration(data.bucket_seconds)}; the darker, the busier`.replace('darker',
    matchMedia('(prefers-color-scheme: dark)').matches ? 'brighter' : 'darker'));
}

function showGpus() {
  byId('gpus').replaceChildren(...data.gpus.map((g) => {
    const row = element('tr');
    fillRow(row, [
      ['GPU', 'tight', several ? gpuName(g.gpu, g.place) : g.gpu < 0 ? 'none' : g.gpu], ['workers', 'num', count(g.workers)], ['done', 'num', count(g.done)],
      ['failed', 'num', count(g.failed)], ['busy', 'num', duration(g.busy_seconds)],
      ['mean use', 'num', (100 * Math.min(1, g.busy_seconds / Math.max(data.seconds * g.workers, 1e-9))).toFixed(1) + ' %'],
    ]);
    return row;
  }));
}

/* --- machines ---------------------------------------------------------------------------------- */

/* A machine as the sum of its GPUs. Its use is the mean over its workers. */
const machines = places.map((name, i) => {
  const gpus = data.gpus.filter((g) => g.place === i), sum = (f) => gpus.reduce((n, g) => n + f(g), 0);
  const workers = Math.max(sum((g) => g.workers), 1);
  return { label: name, gpus: gpus.length, workers: sum((g) => g.workers), done: sum((g) => g.done), failed: sum((g) => g.failed),
    busy: sum((g) => g.busy_seconds), use: data.throughput.done.map((_, k) => Math.round(sum((g) => g.use[k] * g.workers) / workers)) };
});

const machineUse = new Rows(byId('machine-use'), (lane, at) => {
  const i = Math.min(Math.floor(at / data.bucket_seconds), lane.use.length - 1);
  return `${lane.label}: ${lane.use[i]} % at ${duration(at)}`;
});

function showMachines() {
  byId('machines-section').hidden = !several;
  if (!several) return;
  drawUse(machineUse, machines);
  byId('machines').replaceChildren(...machines.map((m) => {
    const row = element('tr');
    fillRow(row, [
      ['machine', 'tight', m.label], ['GPUs', 'num', count(m.gpus)], ['workers', 'num', count(m.workers)], ['done', 'num', count(m.done)],
      ['failed', 'num', count(m.failed)], ['busy', 'num', duration(m.busy)],
      ['mean use', 'num', (100 * Math.min(1, m.busy / Math.max(data.seconds * m.workers, 1e-9))).toFixed(1) + ' %'],
    ]);
    return row;
  }));
}

/* --- timeline ------------------------------------------------------------------------------------ */

const lanes = data.lanes.map(([gpu, worker, place]) => ({ gpu, worker, place, label: '', bars: [] }));
for (const [lane, id, start, seconds, failure] of data.bars)
  lanes[lane].bars.push({ id, start, end: start + seconds, failure: failure === null ? null : data.failures[failure].name });
const shared = new Set(lanes.map((l) => gpuName(l.gpu, l.place))).size < lanes.length;
for (const lane of lanes) lane.label = gpuName(lane.gpu, lane.place) + (shared ? ' · ' + lane.worker : '');
lanes.sort((a, b) => a.place - b.place || a.gpu - b.gpu || a.worker - b.worker);

const timeline = new Rows(byId('timeline'), (lane, at, slack) => {
  const bar = barAt(lane.bars, at, slack);
  return bar ? `task ${bar.id}, ${duration(bar.end - bar.start)}\nfrom ${duration(bar.start)}, worker ${lane.worker} on ${gpuName(lane.gpu, lane.place)}` +
    (bar.failure ? '\n' + bar.failure : '') : '';
});

function showTimeline() {
  timeline.lanes = lanes;
  timeline.to = Math.max(data.seconds, 1e-3);
  timeline.draw((g, lane, top, height, colour) => paintBars(timeline, g, lane.bars, top, height, colour));
  const note = byId('timeline-note');
  note.hidden = data.bars_left_out === 0;
  setText(note, `${plural(data.bars.length, 'task is', 'tasks are')} drawn, the longest of each worker in each step of ` +
    `${duration(data.bucket_seconds)}. ${plural(data.bars_left_out, 'shorter task is', 'shorter tasks are')} not drawn, but counted in all figures.` +
    (data.lanes_left_out ? ` Workers beyond the first ${data.lanes.length} are not drawn.` : ''));
}

/* --- tasks ------------------------------------------------------------------------------------------ */

function place(t) { return t.gpu < 0 ? 'no GPU' : `worker ${t.worker} on ${gpuName(t.gpu, t.place)}`; }

function showSlowest() {
  byId('slowest').replaceChildren(...data.slowest.map((t) => {
    const row = element('tr');
    fillRow(row, [
      ['time', 'num', duration(t.seconds)], ['task', 'num', count(t.number)], ['input', 'what mono', t.input],
      ['how it ended', 'tight', t.failure ? failureBadge(t.failure) : 'done'], ['attempts', 'num', count(t.attempts)],
      ['GPU', 'tight', several ? gpuName(t.gpu, t.place) : t.gpu < 0 ? 'none' : t.gpu], ['worker', 'tight', t.worker], ['started after', 'num', duration(t.start)],
    ]);
    return row;
  }));
}

function failureCard(t) {
  const card = element('div', 'failure'), line = element('p');
  const how = t.signal ? `, signal ${t.signal}` : t.exit_code ? `, exit code ${t.exit_code}` : '';
  line.append(element('strong', '', `task ${t.number}`), ` ${place(t)}, ${plural(t.attempts, 'attempt', 'attempts')}, ` +
    `after ${duration(t.seconds)}${how}`);
  card.append(line, element('p', 'mono', t.input));
  if (t.error) card.append(element('pre', '', t.error));
  if (t.stderr && t.stderr !== t.error) card.append(element('pre', 'why', t.stderr));
  return card;
}

function showFailures() {
  setText(byId('failures-text'), data.failed === 0 ? 'none' : count(data.failed));
  byId('failures').replaceChildren(...[...data.failures].sort((a, b) => b.count - a.count).map((f, i) => {
    const box = element('details'), head = element('summary');
    box.open = i === 0;
    head.append(failureBadge(f.name), ' ' + count(f.count) + (f.shown.length < f.count ? `, the first ${f.shown.length} are shown` : ''));
    box.append(head, ...f.shown.map(failureCard));
    return box;
  }));
}

function draw() {
  showRates();
  showMachines();
  showUse();
  showTimeline();
}

showSummary();
showGpus();
showSlowest();
showFailures();
draw();
window.addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
document.documentElement.dataset.drawn = '1';

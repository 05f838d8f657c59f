// The script of the page. It sends what the user enters, and shows the HTML that the server answers.
"use strict";

const body = document.body;
const base = body.dataset.base;
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

class Problem extends Error {}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Is it still running in the terminal?");
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    throw new Problem(`The server answered with status ${response.status}.`);
  }
  if (!response.ok) throw new Problem(answer.message || `The server answered with status ${response.status}.`);
  if (answer.problem) throw new Problem(answer.problem);
  return answer;
}

const post = (path, value, signal) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value ?? {}), signal });

function showProblem(place, error) {
  if (error !== null && !(error instanceof Problem)) {
    if (error.name === "AbortError") return;
    throw error;
  }
  place.hidden = error === null;
  const text = error === null ? "" : error.message;
  place.textContent = text.charAt(0).toUpperCase() + text.slice(1);
}

// Work that takes longer: the server answers with a job, whose progress is shown until it has an answer.
class Work {
  constructor(place) {
    this.place = place;
    this.label = one(".work-text", place).textContent;
    this.job = null;
    one(".cancel", place).addEventListener("click", () => this.cancel());
  }

  async follow(status) {
    const own = status.job;
    this.job = own;
    while (status.state === "waiting" || status.state === "running") {
      if (this.job !== own) return null;
      this.show(status);
      await pause(150);
      status = await request(`${base}/job/${own}`);
    }
    if (this.job !== own) return null;
    this.hide();
    if (status.state === "failed") throw new Problem(status.message);
    if (status.state === "cancelled") throw new Problem("Cancelled. Nothing was changed.");
    return status.answer;
  }

  show(status) {
    const bar = one("progress", this.place);
    const known = status.of > 0;
    if (known) bar.value = status.done / status.of;
    else bar.removeAttribute("value");
    const share = known ? `, ${Math.floor((100 * status.done) / status.of)} %` : "";
    one(".work-text", this.place).textContent = `${this.label}${status.what ? ` (${status.what}${share})` : ""}`;
    this.place.hidden = false;
  }

  hide() {
    this.place.hidden = true;
    this.job = null;
  }

  async cancel() {
    if (this.job !== null) await post(`${base}/job/${this.job}/cancel`);
  }

  // A newer request makes the present one useless.
  drop() {
    if (this.job !== null) {
      post(`${base}/job/${this.job}/cancel`).catch(() => {});
      this.hide();
    }
  }
}

function sendFile(path, file, work) {
  if (file.size > Number(body.dataset.limit)) {
    const text = body.dataset.limitText || `${(Number(body.dataset.limit) / 1e9).toPrecision(3)} GB`;
    return Promise.reject(new Problem(
      `The file is larger than ${text}, the limit for uploads. Start the server with the name of the file instead: ` +
      "baserate app FILE. Such files can have any size."));
  }
  return new Promise((done, failed) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", `${path}?name=${encodeURIComponent(file.name)}`);
    sending.responseType = "json";
    sending.upload.addEventListener("progress", (event) => {
      if (work) work.show({ what: "", done: event.loaded, of: event.total });
    });
    sending.addEventListener("load", () => {
      const answer = sending.response || {};
      if (answer.problem) failed(new Problem(answer.problem));
      else if (sending.status === 200) done(answer);
      else failed(new Problem(answer.message || `The server answered with status ${sending.status}.`));
    });
    sending.addEventListener("error", () => failed(new Problem("The file could not be sent. Is the server still running?")));
    sending.addEventListener("abort", () => failed(new Problem("Cancelled. Nothing was kept.")));
    if (work) work.cancel = () => sending.abort();
    sending.send(file);
  });
}

function startPage() {
  const problem = one("#problem");
  const work = new Work(one("#upload"));
  const drop = one("#drop");

  async function send(file) {
    showProblem(problem, null);
    try {
      const opened = await sendFile(`${base}/upload`, file, work);
      location.assign(opened.url);
    } catch (error) {
      showProblem(problem, error);
    } finally {
      work.place.hidden = true;
    }
  }

  one("#file").addEventListener("change", (event) => {
    if (event.target.files.length) send(event.target.files[0]);
    event.target.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
  for (const button of all(".open")) {
    button.addEventListener("click", async () => {
      showProblem(problem, null);
      try {
        location.assign((await post(`${base}/open/${button.dataset.number}`)).url);
      } catch (error) {
        showProblem(problem, error);
      }
    });
  }
}

// Numbers: a decimal comma and a decimal point are both accepted, also with a percent sign.
function numberIn(text) {
  const plain = text.replace(/[\s%]/g, "").replace(",", ".");
  return plain === "" || Number.isNaN(Number(plain)) ? null : Number(plain);
}
const numberText = (value) =>
  value.toLocaleString(undefined, { maximumFractionDigits: 2, useGrouping: false });

function analysisPage() {
  const url = body.dataset.url;
  const problem = one("#problem");
  const shows = one("#shows");
  const answerPlace = one("#answer");
  const writeButton = one("#write");
  const work = new Work(one("#work"));
  const furtherWork = new Work(one("#further-work"));
  const writeWork = new Work(one("#write-work"));
  let means = new Map();
  let groups = {};  // the rates of the table per group, in percent
  let groupChanges = {};  // what was changed on the page, by group and class

  const ratesForm = () => one("#rates-form");
  const kind = () => new FormData(ratesForm()).get("kind");
  const panel = () => all(".panel", ratesForm()).find((part) => part.dataset.kinds.split(" ").includes(kind()));

  function entriesIn(place) {
    return all(".rate", place).map((row) => ({
      class: row.dataset.class,
      low: one(".low", row).value,
      high: (one(".high", row) || one(".low", row)).value,
    })).filter((entry) => entry.low.trim() || entry.high.trim());
  }

  function formValue() {
    const form = ratesForm();
    const data = new FormData(form);
    const old = one(".old", form);
    return {
      kind: kind(),
      loss: data.get("loss"),
      by: data.get("by"),
      rates_kind: data.get("rates_kind"),
      validation_labels: data.get("validation_labels"),
      group_changes: kind() === "groups" ? groupChanges : {},
      entries: kind() === "groups" ? [] : entriesIn(panel()),
      old_rates: old ? entriesIn(old) : [],
    };
  }

  // What if for one group: its rates as in the table, or as they were changed.
  async function loadGroups() {
    const place = one(".what-if", ratesForm());
    const by = new FormData(ratesForm()).get("by");
    groupChanges = {};
    groups = by ? (await post(`${url}/groups`, { by })).groups : {};
    const names = Object.keys(groups);
    place.hidden = names.length === 0;
    one(".group-choice", place).replaceChildren(...names.map((name) => new Option(name, name)));
    showGroup();
  }

  function showGroup() {
    const place = one(".what-if", ratesForm());
    const group = one(".group-choice", place).value;
    const shares = { ...groups[group], ...groupChanges[group] };
    one(".rows", place).replaceChildren();
    for (const [name, share] of Object.entries(shares)) {
      const row = newRow("t-share", name);
      one(".rows", place).append(row);
      setField(row, "low", numberIn(share));
    }
    moved.row = null;
    showChanges();
  }

  function keepGroupChanges() {
    const place = one(".what-if", ratesForm());
    const group = one(".group-choice", place).value;
    const entries = {};
    for (const row of all(".rate", place)) {
      const text = one(".low", row).value;
      if (numberIn(text) !== numberIn(groups[group][row.dataset.class])) entries[row.dataset.class] = text;
    }
    if (Object.keys(entries).length) groupChanges[group] = entries;
    else delete groupChanges[group];
    showChanges();
  }

  function showChanges() {
    const names = Object.keys(groupChanges);
    one(".changes", ratesForm()).textContent = names.length ? `Changed here: ${names.join(", ")}. Your file stays as it is.` : "";
  }

  function newRow(template, name) {
    const row = one(`#${template}`).content.cloneNode(true).querySelector(".rate");
    row.dataset.class = name;
    one("bdi", row).textContent = name;
    for (const part of all("[aria-label]", row)) {
      part.setAttribute("aria-label", part.getAttribute("aria-label").replace(/ of (,|$)/, (_, end) => ` of ${name}${end}`));
    }
    return row;
  }

  const hasSliders = () => ["number", "population", "range", "counts"].includes(kind());
  const isComplete = () => !hasSliders() || formValue().entries.length > 0;

  // Quick answers: one request at a time, and then the newest values. Exact answers: when nothing changes for a moment.
  let quickRunning = false;
  let quickWanted = false;
  let version = 0;
  let timer = 0;

  async function quick() {
    quickWanted = true;
    if (quickRunning) return;
    quickRunning = true;
    while (quickWanted) {
      quickWanted = false;
      const own = version;
      try {
        const status = await post(`${url}/quick`, formValue());
        if (own === version && status.answer) showAnswer(status.answer.html);
        showProblem(problem, null);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
      }
    }
    quickRunning = false;
  }

  async function exact() {
    const own = ++version;
    quickWanted = false;
    work.drop();
    furtherWork.drop();
    if (!isComplete()) return;
    shows.dataset.busy = "yes";
    try {
      const answer = await work.follow(await post(`${url}/exact`, formValue()));
      if (own !== version || answer === null) return;
      showProblem(problem, null);
      showAnswer(answer.html);
      writeButton.disabled = false;
      await further(own);
    } catch (error) {
      if (own !== version) return;
      showProblem(problem, error);
      shows.textContent = "";
      writeButton.disabled = true;
    } finally {
      delete shows.dataset.busy;
    }
  }

  async function further(own) {
    one("#further").classList.add("old-answer");
    await pause(700);
    if (own !== version) return;
    const answer = await furtherWork.follow(await post(`${url}/further`, formValue()));
    if (own !== version || answer === null) return;
    one("#further").innerHTML = answer.html;
    one("#further").classList.remove("old-answer");
  }

  function showAnswer(html) {
    const open = all("details", answerPlace).map((details) => details.open);
    answerPlace.innerHTML = html;
    const now = all("details", answerPlace);
    if (now.length === open.length) now.forEach((details, i) => { details.open = open[i]; });
    const answer = one(".answer", answerPlace);
    shows.textContent = answer.dataset.shows;
    shows.dataset.exact = answer.dataset.exact;
    const code = one(".code-part", answerPlace);
    if (code) one("#code").replaceChildren(code.content.cloneNode(true));
    one("#downloads").replaceChildren();
  }

  function changed({ moving = false } = {}) {
    version += 1;
    clearTimeout(timer);
    one("#downloads").replaceChildren();
    if (!isComplete()) return;
    if (moving) quick();
    timer = setTimeout(exact, moving ? 250 : 350);
  }

  // Sliders and number fields show the same value.
  function setField(row, side, value) {
    one(`.${side}`, row).value = value === null ? "" : numberText(value);
    setSlider(row, side);
  }

  function setSlider(row, side) {
    const slider = one(`.${side}-slider`, row);
    if (!slider) return;
    const value = numberIn(one(`.${side}`, row).value);
    slider.value = value === null ? (means.get(row.dataset.class) ?? (side === "high" ? 100 : 0)) : value;
    slider.setAttribute("aria-valuetext", value === null ? "not entered" : `${numberText(value)} percent`);
  }

  // If all rates are entered and one is moved, the others keep the proportions that they had when it began to move.
  // Whole units of 0.01 percent.
  let moved = { row: null, units: new Map() };
  const unitsOf = (row) => Math.round(100 * numberIn(one(".low", row).value));

  function rebalance(row) {
    const rows = all(".rate", panel()).filter((other) => numberIn(one(".low", other).value) !== null);
    const others = rows.filter((other) => other !== row);
    if (moved.row !== row) moved = { row, units: new Map(others.map((other) => [other, unitsOf(other)])) };
    const units = (other) => moved.units.get(other) ?? unitsOf(other);
    const rest = 10000 - unitsOf(row);
    const total = others.reduce((sum, other) => sum + units(other), 0);
    const shown = all(".rate", panel()).length;
    const complete = rows.length === (kind() === "groups" ? shown : Number(ratesForm().dataset.classes)) && shown > 1;
    if (!others.length || !(total > rest || (complete && total !== rest))) return;
    const shares = others.map((other) => Math.floor(total > 0 ? (units(other) * rest) / total : rest / others.length));
    shares[shares.indexOf(Math.max(...shares))] += rest - shares.reduce((sum, share) => sum + share, 0);
    others.forEach((other, i) => setField(other, "low", shares[i] / 100));
  }

  function keepOrder(row, side) {
    const low = numberIn(one(".low", row).value);
    const high = numberIn(one(".high", row).value);
    if (low !== null && high !== null && low > high) setField(row, side === "low" ? "high" : "low", side === "low" ? low : high);
  }

  function showSum() {
    const place = one(".sum", panel());
    if (!place) return;
    const values = entriesIn(panel()).map((entry) => numberIn(entry.low) ?? 0);
    const sum = values.reduce((total, value) => total + value, 0);
    const classes = Number(ratesForm().dataset.classes);
    const rest = 100 - sum;
    if (!values.length || classes < 2) place.textContent = "";
    else if (values.length === classes || sum > 100.0001) {
      place.textContent = Math.abs(rest) < 0.0001 ? "Sum: 100 %" : `Sum: ${numberText(sum)} %, but it must be 100 %`;
    } else place.textContent = `Sum: ${numberText(sum)} %. The other ${classes - values.length > 1 ? `${classes - values.length} classes share` : "class gets"} ${numberText(rest)} %.`;
    place.classList.toggle("wrong", place.textContent.includes("must"));
  }

  function onInput(event) {
    const row = event.target.closest(".rate");
    const ofGroup = row !== null && row.closest(".what-if") !== null;
    if (row && event.target.type === "range") {
      const side = event.target.className.startsWith("low") ? "low" : "high";
      setField(row, side, Number(event.target.value));
      if (row.classList.contains("is-range")) keepOrder(row, side);
      else rebalance(row);
      if (ofGroup) keepGroupChanges();
      showSum();
      changed({ moving: !ofGroup });
    } else if (row) {
      moved.row = null;
      for (const side of ["low", "high"]) if (one(`.${side}-slider`, row)) setSlider(row, side);
      if (ofGroup) keepGroupChanges();
      showSum();
      changed({ moving: !ofGroup && !row.classList.contains("is-old") });
    } else if (event.target.name === "kind") {
      showPanel();
      changed();
    } else if (event.target.classList.contains("group-choice")) showGroup();
    else if (event.target.name === "by") loadGroups().then(() => changed());
    else if (event.target.name) changed();
  }

  function showPanel() {
    const now = panel();
    for (const part of all(".panel", ratesForm())) part.hidden = part !== now;
    for (const text of all(".only-number, .only-population", ratesForm())) {
      text.hidden = !text.className.includes(`only-${kind()}`);
    }
    showProblem(problem, null);
    showSum();
  }

  async function onFile(event) {
    const field = event.target.closest(".file-field");
    if (!field || !event.target.files.length) return;
    const chosen = one(".chosen", field);
    const purpose = field.dataset.purpose;
    try {
      const file = event.target.files[0];
      const answer = await sendFile(`${url}/file/${purpose}`, file, null);
      chosen.textContent = `Chosen: ${answer.name}`;
      if (purpose === "validation") {
        one("#validation-columns").replaceChildren(...answer.columns.map((name) => new Option(name, name)));
      }
      if (purpose === "groups") await loadGroups();
      showProblem(problem, null);
      changed();
    } catch (error) {
      chosen.textContent = "";
      showProblem(problem, error);
    }
  }

  function addClass(button) {
    const input = one(".add-name", button.closest(".add"));
    const name = input.value;
    const names = all("option", one("#class-names")).map((option) => option.value);
    const rows = one(".rows", panel());
    if (!names.includes(name)) return showProblem(problem, new Problem(`There is no class “${name}”.`));
    if (all(".rate", rows).some((row) => row.dataset.class === name)) return undefined;
    const row = newRow(button.dataset.template, name);
    rows.append(row);
    for (const side of ["low", "high"]) if (one(`.${side}-slider`, row)) setSlider(row, side);
    input.value = "";
    showProblem(problem, null);
    one(".low", row).focus();
    return undefined;
  }

  async function onColumns(event) {
    event.preventDefault();
    const form = event.target;
    const roles = {};
    for (const field of all("[data-column]", form)) roles[field.dataset.column] = field.value;
    const value = { roles, normalize: form.normalize.checked, from_logits: form.from_logits.checked };
    try {
      const parts = await post(`${url}/columns`, value);
      one("#columns").innerHTML = parts.columns;
      one("#rates").innerHTML = parts.rates;
      answerPlace.replaceChildren();
      one("#further").replaceChildren();
      one("#code").replaceChildren();
      writeButton.disabled = true;
      shows.textContent = "";
      showProblem(problem, null);
      loadMeans();
      one("#h-rates").scrollIntoView({ block: "nearest" });
    } catch (error) {
      showProblem(one(".problem", form), error);
    }
  }

  // Read the file, so that the first answer is quick, and show what the predictions say now.
  async function loadMeans() {
    version += 1;
    const own = version;
    work.drop();
    try {
      const answer = await work.follow(await post(`${url}/means`));
      if (answer === null) return;
      means = new Map(answer.means);
      for (const row of all(".rate", ratesForm())) {
        const mean = means.get(row.dataset.class);
        if (mean === undefined || row.classList.contains("is-count")) continue;
        for (const field of all(".low, .high", row)) field.placeholder = numberText(mean);
        for (const side of ["low", "high"]) if (one(`.${side}-slider`, row)) setSlider(row, side);
      }
    } catch (error) {
      if (own === version) showProblem(problem, error);
    }
  }

  async function write() {
    const place = one("#write-problem");
    showProblem(place, null);
    one("#downloads").replaceChildren();
    writeButton.disabled = true;
    try {
      const answer = await writeWork.follow(await post(`${url}/write`, formValue()));
      if (answer) one("#downloads").innerHTML = answer.html;
    } catch (error) {
      showProblem(place, error);
    } finally {
      writeButton.disabled = false;
    }
  }

  function onSearch(box) {
    const query = box.value.toLowerCase();
    for (const row of all("tbody tr", box.closest("details"))) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(query);
    }
  }

  document.addEventListener("input", (event) => {
    if (event.target.type === "file") return;
    if (event.target.type === "search") onSearch(event.target);
    else if (event.target.closest("#rates-form") && !event.target.classList.contains("add-name")) onInput(event);
  });
  document.addEventListener("change", (event) => {
    if (event.target.type === "file") onFile(event);
  });
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.target.id === "columns-form") onColumns(event);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.classList.contains("add-name")) {
      event.preventDefault();
      addClass(one(".add-class", event.target.closest(".add")));
    }
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("add-class")) addClass(button);
    if (button.classList.contains("use-labels")) changed();
    if (button.classList.contains("copy")) {
      const text = one(`#${button.dataset.copy}`).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(one(`#${button.dataset.copy}`));
        button.textContent = "Selected: press Ctrl-C";
      }
    }
  });
  one("#close").addEventListener("click", async () => location.assign((await post(`${url}/close`)).url));
  writeButton.addEventListener("click", write);
  // Reloading keeps what was typed in some browsers, but not the answer.
  ratesForm().reset();
  loadMeans();
}

if (body.dataset.page === "start") startPage();
else analysisPage();

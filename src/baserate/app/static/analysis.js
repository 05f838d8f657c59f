// The page of an open file: connects what the user does with the parts of the page.
import { Answers } from "./answers.js";
import { Downloads, copyText } from "./downloads.js";
import { keepOrder, setValue } from "./fields.js";
import { GroupChanges } from "./group_changes.js";
import { Problem, all, body, one, showProblem } from "./page.js";
import { RatesForm } from "./rates_form.js";
import { post, sendFile } from "./requests.js";

class AnalysisPage {
  constructor() {
    this.url = body.dataset.url;
    this.problem = one("#problem");
    this.rates = new RatesForm();
    this.groups = new GroupChanges(this.url, this.rates);
    const entered = () => this.rates.value(this.groups.changes);
    this.downloads = new Downloads(this.url, entered);
    this.answers = new Answers(this.url, { entered, ready: (isReady) => this.downloads.setReady(isReady) });
  }

  start() {
    this.listen();
    this.rates.form.reset();  // Reloading keeps what was typed in some browsers, but not the answer.
    this.loadMeans();
  }

  listen() {
    document.addEventListener("input", (event) => this.onInput(event.target));
    document.addEventListener("change", (event) => { if (event.target.type === "file") this.onFile(event.target); });
    document.addEventListener("submit", (event) => {
      event.preventDefault();
      if (event.target.id === "columns-form") this.onColumns(event.target);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.target.classList.contains("add-name")) return;
      event.preventDefault();
      this.addClass(one(".add-class", event.target.closest(".add")));
    });
    document.addEventListener("click", (event) => this.onClick(event.target.closest("button")));
    // What a button or a file starts may also find that the server has ended.
    addEventListener("unhandledrejection", (event) => {
      if (!(event.reason instanceof Problem)) return;
      event.preventDefault();
      showProblem(this.problem, event.reason);
    });
  }

  changed({ moving = false } = {}) {
    this.downloads.forget();
    this.answers.changed({ moving, complete: this.rates.isComplete });
  }

  // Read the file, so that the first answer is quick, and show what the predictions say now.
  async loadMeans() {
    const answer = await this.answers.prepare("means");
    if (answer !== null) this.rates.showMeans(answer.means);
  }

  onInput(target) {
    if (target.type === "file") return;
    if (target.type === "search") search(target);
    else if (target.closest("#rates-form") && !target.classList.contains("add-name")) this.onEntry(target);
  }

  onEntry(target) {
    const row = target.closest(".rate");
    if (row && target.type === "range") this.onSlider(row, target);
    else if (row) this.onTyped(row);
    else if (target.name === "kind") {
      this.rates.showPanel();
      showProblem(this.problem, null);
      this.onKind();
    } else if (target.classList.contains("group-choice")) this.groups.showGroup();
    else if (["by", "rates_kind"].includes(target.name)) this.groups.load().then(() => this.changed());
    else if (target.name) this.changed();
  }

  // After the page was reloaded, or the columns were changed, a table that was chosen before is still used.
  onKind() {
    if (this.rates.kind === "groups" && this.groups.place.hidden) this.groups.load().then(() => this.changed());
    else this.changed();
  }

  onSlider(row, slider) {
    const side = slider.classList.contains("low-slider") ? "low" : "high";
    setValue(row, side, Number(slider.value));
    if (row.classList.contains("is-range")) keepOrder(row, side);
    else this.rates.rebalance(row);
    this.rates.showSum();
    this.afterEntry(row, true);
  }

  onTyped(row) {
    this.rates.onTyped(row);
    this.afterEntry(row, !row.classList.contains("is-old"));
  }

  // Rates per group have no quick answer.
  afterEntry(row, moving) {
    const ofGroup = row.closest(".what-if") !== null;
    if (ofGroup) this.groups.keep();
    this.changed({ moving: moving && !ofGroup });
  }

  async onFile(input) {
    const field = input.closest(".file-field");
    if (!field || !input.files.length) return;
    const { purpose } = field.dataset;
    const { data } = this.rates;
    const refused = one(".problem", field);
    try {
      const chosen = { by: data.get("by"), rates_kind: data.get("rates_kind") };
      const answer = await sendFile(`${this.url}/file/${purpose}`, input.files[0], { chosen });
      showProblem(refused, null);
      one(".chosen", field).textContent = `Chosen: ${answer.name}`;
      if (purpose === "validation") {
        one("#validation-columns").replaceChildren(...answer.columns.map((name) => new Option(name, name)));
      }
      if (purpose === "groups") await this.groups.load();
      showProblem(this.problem, null);
      this.changed();
    } catch (error) {
      input.value = "";  // an earlier file is still used
      showProblem(refused, error);
    }
  }

  addClass(button) {
    try {
      this.rates.addClass(button);
      showProblem(this.problem, null);
    } catch (error) {
      showProblem(this.problem, error);
    }
  }

  async onColumns(form) {
    const roles = Object.fromEntries(all("[data-column]", form).map((field) => [field.dataset.column, field.value]));
    const checked = (name) => form.elements[name].checked;
    const flags = { normalize: checked("normalize"), from_logits: checked("from_logits"), has_zeros: checked("has_zeros") };
    try {
      const parts = await post(`${this.url}/columns`, { roles, ...flags });
      one("#columns").innerHTML = parts.columns;
      one("#rates").innerHTML = parts.rates;
      this.groups.forget();
      this.answers.drop();
      this.answers.forget();
      this.downloads.forget();
      showProblem(this.problem, null);
      this.loadMeans();
      one("#h-rates").scrollIntoView({ block: "nearest" });
    } catch (error) {
      showProblem(one(".problem", form), error);
    }
  }

  async onClick(button) {
    if (!button) return;
    if (button.id === "close") location.assign((await post(`${this.url}/close`)).url);
    if (button.classList.contains("add-class")) this.addClass(button);
    if (button.classList.contains("use-labels")) this.changed();
    if (button.classList.contains("copy")) await copyText(button);
    if (button.classList.contains("reset-group")) {
      this.groups.resetGroup();
      this.changed();
    }
  }
}

function search(box) {
  const query = box.value.toLowerCase();
  for (const row of all("tbody tr", box.closest("details"))) {
    row.hidden = !row.cells[0].textContent.toLowerCase().includes(query);
  }
}

export const analysisPage = () => new AnalysisPage().start();

// Step 2: what is known about the rates. The form is replaced when the columns change, so it is looked up each time.
import { Problem, all, one } from "./page.js";
import { decimalsOf, numberText } from "./numbers.js";
import { entriesIn, fitSliders, newRow, setValue, showMean, textOf, valueOf } from "./fields.js";

const TYPED_KINDS = ["number", "population", "range", "counts"];

export class RatesForm {
  constructor() {
    this.means = new Map();
    this.moved = { row: null, units: new Map(), decimals: 2 };
  }

  get form() { return one("#rates-form"); }
  get data() { return new FormData(this.form); }
  get kind() { return this.data.get("kind"); }
  get panel() { return all(".panel", this.form).find((part) => part.dataset.kinds.split(" ").includes(this.kind)); }
  get nClasses() { return Number(this.form.dataset.classes); }
  get isComplete() { return !TYPED_KINDS.includes(this.kind) || entriesIn(this.panel).length > 0; }

  // What the server is asked about.
  value(groupChanges) {
    const { data, kind } = this;
    const old = one(".old", this.form);
    return {
      kind,
      loss: data.get("loss"),
      by: data.get("by"),
      rates_kind: data.get("rates_kind"),
      validation_labels: data.get("validation_labels"),
      group_changes: kind === "groups" ? groupChanges : {},
      entries: kind === "groups" ? [] : entriesIn(this.panel),
      old_rates: old ? entriesIn(old) : [],
    };
  }

  showPanel() {
    for (const part of all(".panel", this.form)) part.hidden = part !== this.panel;
    for (const text of all(".only-number, .only-population", this.form)) {
      text.hidden = !text.classList.contains(`only-${this.kind}`);
    }
    this.showSum();
  }

  showMeans(means) {
    this.means = new Map(means);
    for (const row of all(".panel > .rows .rate", this.form)) showMean(row, this.means.get(row.dataset.class));
  }

  showSum() {
    const place = one(".sum", this.panel);
    if (!place) return;
    const values = entriesIn(this.panel).map((entry) => valueOf(this.rowOf(entry.class)) ?? 0);
    const { text, wrong } = sumText(values, this.nClasses);
    place.textContent = text;
    place.classList.toggle("wrong", wrong);
  }

  rowOf(name) {
    return all(".rate", this.panel).find((row) => row.dataset.class === name);
  }

  onTyped(row) {
    this.moved.row = null;
    fitSliders(row);
    this.showSum();
  }

  // If all rates are entered and one is moved, the others keep the proportions that they had when it began to move.
  rebalance(row) {
    const rows = all(".rate", this.panel).filter((other) => valueOf(other) !== null);
    const others = rows.filter((other) => other !== row);
    if (this.moved.row !== row) this.beginMove(row, others);
    const { units, decimals } = this.moved;
    const rest = wholeUnits(100, decimals) - wholeUnits(valueOf(row), decimals);
    const total = others.reduce((sum, other) => sum + units.get(other), 0);
    const nShown = all(".rate", this.panel).length;
    const isComplete = rows.length === (this.kind === "groups" ? nShown : this.nClasses) && nShown > 1;
    if (!others.length || !(total > rest || (isComplete && total !== rest))) return;
    const shares = others.map((other) => Math.floor(total > 0 ? (units.get(other) * rest) / total : rest / others.length));
    shares[shares.indexOf(Math.max(...shares))] += rest - shares.reduce((sum, share) => sum + share, 0);
    others.forEach((other, i) => setValue(other, "low", shares[i] / 10 ** decimals, decimals));
  }

  // Shares are computed in whole units of the last decimal, so that they sum to exactly 100 %.
  beginMove(row, others) {
    const decimals = decimalsOf(others.map((other) => textOf(other)));
    const units = new Map(others.map((other) => [other, wholeUnits(valueOf(other), decimals)]));
    this.moved = { row, units, decimals };
  }

  // Classes of files with many classes are added one by one.
  addClass(button) {
    const input = one(".add-name", button.closest(".add"));
    const name = input.value;
    const rows = one(".rows", this.panel);
    if (!all("option", one("#class-names")).some((option) => option.value === name)) {
      throw new Problem(`There is no class “${name}”.`);
    }
    if (all(".rate", rows).some((row) => row.dataset.class === name)) return;
    const row = newRow(button.dataset.template, name);
    rows.append(row);
    fitSliders(row);
    showMean(row, this.means.get(name));
    input.value = "";
    one(".low", row).focus();
  }
}

const wholeUnits = (value, decimals) => Math.round(value * 10 ** decimals);

function sumText(values, nClasses) {
  if (!values.length || nClasses < 2) return { text: "", wrong: false };
  const sum = values.reduce((total, value) => total + value, 0);
  const rest = 100 - sum;
  if (values.length === nClasses || sum > 100.0001) {
    const wrong = Math.abs(rest) >= 0.0001;
    return { text: wrong ? `Sum: ${numberText(sum)} %, but it must be 100 %` : "Sum: 100 %", wrong };
  }
  const missing = nClasses - values.length;
  const others = missing > 1 ? `${missing} classes share` : "class gets";
  return { text: `Sum: ${numberText(sum)} %. The other ${others} ${numberText(rest)} %.`, wrong: false };
}

// What if a group had other rates: changes of the uploaded table that are made on the page.
import { all, one } from "./page.js";
import { exactText, parseNumber } from "./numbers.js";
import { fitSliders, newRow, textOf } from "./fields.js";
import { post } from "./requests.js";

export class GroupChanges {
  constructor(url, rates) {
    this.url = url;
    this.rates = rates;
    this.groups = {};  // the rates of the table per group, in percent, as decimal texts
    this.forget();
  }

  get place() { return one(".what-if", this.rates.form); }
  get group() { return one(".group-choice", this.place).value; }

  forget() {
    this.changes = Object.create(null);  // by group and class; a group may be called "constructor"
  }

  async load() {
    const { data } = this.rates;
    const by = data.get("by");
    this.forget();
    this.groups = by ? (await post(`${this.url}/groups`, { by, rates_kind: data.get("rates_kind") })).groups : {};
    const names = Object.keys(this.groups);
    this.place.hidden = names.length === 0;
    one(".group-choice", this.place).replaceChildren(...names.map((name) => new Option(name, name)));
    this.showGroup();
  }

  showGroup() {
    const rows = Object.entries(this.groups[this.group] ?? {}).map(([name, share]) => {
      const row = newRow("t-share", name);
      one(".low", row).value = this.changes[this.group]?.[name] ?? exactText(share);
      fitSliders(row);
      return row;
    });
    one(".rows", this.place).replaceChildren(...rows);
    this.rates.moved.row = null;
    this.showChanges();
  }

  // A number is changed if it is another one than that of the table, also if it was rounded for the page.
  keep() {
    const entries = {};
    for (const row of all(".rate", this.place)) {
      const name = row.dataset.class;
      if (parseNumber(textOf(row)) !== parseNumber(this.groups[this.group][name])) entries[name] = textOf(row);
    }
    if (Object.keys(entries).length) this.changes[this.group] = entries;
    else delete this.changes[this.group];
    this.showChanges();
  }

  resetGroup() {
    delete this.changes[this.group];
    this.showGroup();
  }

  showChanges() {
    const names = Object.keys(this.changes);
    const text = names.length ? `Changed here: ${names.join(", ")}. Your file stays as it is.` : "";
    one(".changes", this.place).textContent = text;
    one(".reset-group", this.place).hidden = !(this.group in this.changes);
  }
}

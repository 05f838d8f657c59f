// Step 3: answers of the server. Quick ones while a slider moves, and the exact one when nothing changes for a moment.
import { Problem, all, one, pause, showProblem } from "./page.js";
import { Work, post } from "./requests.js";

const BEFORE_EXACT = { moving: 250, still: 350 };  // milliseconds
const BEFORE_FURTHER = 700;
const BEFORE_SAYING = 150;  // while a slider moves, a quick answer comes earlier, and the text would flicker
const OUT_OF_DATE = "Out of date: this is the answer to the earlier entries. The new one is being computed.";

export class Answers {
  // ``entered`` returns what the form says; ``ready`` is called with true when the files can be written.
  constructor(url, { entered, ready }) {
    this.url = url;
    this.entered = entered;
    this.ready = ready;
    this.place = one("#answer");
    this.nothing = one(".empty", this.place);
    this.problem = one("#problem");
    this.work = new Work(one("#work"), "Cancelled. Change a number to start again.");
    this.furtherWork = new Work(
      one("#further-work"), "Cancelled. Change a number to check again whether the rates are plausible.");
    this.version = 0;  // of what is entered
    this.timer = 0;  // of the exact answer
    this.sayTimer = 0;
    this.quickRunning = false;
    this.quickWanted = false;
  }

  get isShown() { return one(".answer", this.place) !== null; }

  // Something was entered that the present answer does not know.
  changed({ moving, complete }) {
    this.version += 1;
    clearTimeout(this.timer);
    if (!complete) {
      this.drop();
      showProblem(this.problem, null);
      this.forget();
      return;
    }
    this.markOutOfDate(moving);
    if (moving) this.quick();
    this.timer = setTimeout(() => this.exact(), moving ? BEFORE_EXACT.moving : BEFORE_EXACT.still);
  }

  drop() {
    clearTimeout(this.timer);
    this.work.drop();
    this.furtherWork.drop();
  }

  // One request at a time, and then the newest values.
  async quick() {
    this.quickWanted = true;
    if (this.quickRunning) return;
    this.quickRunning = true;
    try {
      while (this.quickWanted) await this.newestQuick();
    } finally {
      this.quickRunning = false;
    }
  }

  async newestQuick() {
    this.quickWanted = false;
    const own = this.version;
    try {
      const { answer } = await post(`${this.url}/quick`, this.entered());
      if (own !== this.version) return;  // what is shown about a newer entry stays
      if (answer) this.show(answer.html);
      showProblem(this.problem, null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;  // the exact answer will say what is wrong
    }
  }

  async exact() {
    this.version += 1;
    const own = this.version;
    this.quickWanted = false;
    this.drop();
    try {
      const answer = await this.work.follow(await post(`${this.url}/exact`, this.entered()));
      if (own !== this.version || answer === null) return;
      showProblem(this.problem, null);
      this.show(answer.html);
      this.ready(true);
    } catch (error) {
      if (own !== this.version) return;
      this.forget();
      showProblem(this.problem, error);
      return;
    }
    await this.further(own);
  }

  // Whether the rates are plausible, and the comparison of procedures.
  async further(own) {
    const place = one("#further");
    await pause(BEFORE_FURTHER);
    if (own !== this.version) return;
    try {
      const answer = await this.furtherWork.follow(await post(`${this.url}/further`, this.entered()));
      if (own !== this.version || answer === null) return;
      place.innerHTML = answer.html;
      place.classList.remove("old-answer");
    } catch (error) {
      if (own !== this.version) return;
      place.replaceChildren();
      place.classList.remove("old-answer");
      showProblem(this.problem, error);
    }
  }

  show(html) {
    const open = all("details", this.place).map((details) => details.open);
    this.place.innerHTML = html;
    this.place.classList.remove("old-answer");
    const now = all("details", this.place);
    if (now.length === open.length) now.forEach((details, i) => { details.open = open[i]; });
    const answer = one(".answer", this.place);
    this.say(answer.dataset.shows, answer.dataset.exact);
    const code = one(".code-part", this.place);
    if (!code) return;
    one("#code").replaceChildren(code.content.cloneNode(true));
    one("#code").classList.remove("old-answer");
  }

  say(text, exact) {
    clearTimeout(this.sayTimer);
    const place = one("#shows");
    place.textContent = text;
    place.dataset.exact = exact;
  }

  markOutOfDate(moving) {
    this.ready(false);
    if (!this.isShown) return;
    one(".answer", this.place).dataset.exact = "old";
    clearTimeout(this.sayTimer);
    this.sayTimer = setTimeout(() => this.say(OUT_OF_DATE, "old"), moving ? BEFORE_SAYING : 0);
    for (const place of [this.place, one("#further"), one("#code")]) place.classList.add("old-answer");
  }

  forget() {
    this.place.replaceChildren(this.nothing);
    for (const place of [one("#further"), one("#code")]) place.replaceChildren();
    for (const place of [this.place, one("#further"), one("#code")]) place.classList.remove("old-answer");
    this.say("", "no");
    this.ready(false);
  }

  // Work that the answers need, such as reading the file. An answer that is asked for meanwhile makes it useless.
  async prepare(path) {
    this.version += 1;
    const own = this.version;
    this.work.drop();
    try {
      return await this.work.follow(await post(`${this.url}/${path}`));
    } catch (error) {
      if (own === this.version) showProblem(this.problem, error);
      return null;
    }
  }
}

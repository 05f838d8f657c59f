// Step 4: the files, and the commands that write them.
import { one, showProblem } from "./page.js";
import { Work, post } from "./requests.js";

export class Downloads {
  constructor(url, entered) {
    this.url = url;
    this.entered = entered;
    this.button = one("#write");
    this.place = one("#downloads");
    this.problem = one("#write-problem");
    this.work = new Work(one("#write-work"));
    this.isReady = false;
    this.button.addEventListener("click", () => this.write());
  }

  setReady(isReady) {
    this.isReady = isReady;
    this.button.disabled = !isReady;
  }

  forget() {
    this.work.drop();
    showProblem(this.problem, null);
    this.place.replaceChildren();
  }

  async write() {
    this.forget();
    this.button.disabled = true;
    try {
      const answer = await this.work.follow(await post(`${this.url}/write`, this.entered()));
      if (answer) this.place.innerHTML = answer.html;
    } catch (error) {
      showProblem(this.problem, error);
    } finally {
      this.button.disabled = !this.isReady;
    }
  }
}

export async function copyText(button) {
  const source = one(`#${button.dataset.copy}`);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected: press Ctrl-C";
  }
}

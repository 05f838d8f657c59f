// Requests to the server, and work of the server that takes longer.
import { Problem, base, body, one, pause } from "./page.js";

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
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

export const post = (path, value) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value ?? {}) });

// The server answers with a job, whose progress is shown until it has an answer.
export class Work {
  constructor(place, cancelled = "Cancelled. Nothing was changed.") {
    this.place = place;
    this.cancelled = cancelled;
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
    if (status.state === "cancelled") throw new Problem(this.cancelled);
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

function checkSize(file) {
  if (file.size <= Number(body.dataset.limit)) return;
  throw new Problem(
    `The file is larger than ${body.dataset.limitText}, the limit for uploads. Start the server with the name of the ` +
    "file instead: baserate app FILE. Such files can have any size.");
}

// Send a file, with the progress that the browser reports; fetch() reports none.
export async function sendFile(path, file, { work = null, chosen = {} } = {}) {
  checkSize(file);
  return new Promise((done, failed) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", `${path}?${new URLSearchParams({ ...chosen, name: file.name })}`);
    sending.responseType = "json";
    sending.upload.addEventListener("progress", (event) => work?.show({ what: "", done: event.loaded, of: event.total }));
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

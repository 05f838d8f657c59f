// The first page: choose a file.
import { all, base, one, showProblem } from "./page.js";
import { Work, post, sendFile } from "./requests.js";

async function openWith(ask) {
  const problem = one("#problem");
  showProblem(problem, null);
  try {
    location.assign((await ask()).url);
  } catch (error) {
    showProblem(problem, error);
  }
}

async function upload(file, work) {
  await openWith(() => sendFile(`${base}/upload`, file, { work }));
  work.hide();
}

function acceptDrops(drop, work) {
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) upload(event.dataTransfer.files[0], work);
  });
}

export function startPage() {
  const work = new Work(one("#upload"));
  acceptDrops(one("#drop"), work);
  one("#file").addEventListener("change", (event) => {
    if (event.target.files.length) upload(event.target.files[0], work);
    event.target.value = "";
  });
  for (const button of all(".open")) {
    button.addEventListener("click", () => openWith(() => post(`${base}/open/${button.dataset.number}`)));
  }
}

// What all scripts of the page need.
export const body = document.body;
export const base = body.dataset.base;
export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];
export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Something that the user has to know.
export class Problem extends Error {}

export function showProblem(place, error) {
  if (error !== null && !(error instanceof Problem)) throw error;
  place.hidden = error === null;
  place.textContent = error === null ? "" : error.message;
}

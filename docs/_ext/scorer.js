// How the search ranks results. The constants are Sphinx's own.
// Of results with the same score, guides come before other pages, these before the reference, and the entry of the
// glossary that defines a name comes last. The differences are below 1, because Sphinx's scores are whole numbers.
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score + (page.startsWith("guides/") ? 0.3 : page.startsWith("api/") ? -0.3 : page === "glossary" ? -0.6 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

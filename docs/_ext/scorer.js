// How the search ranks results. The constants are Sphinx's own.
// A page about a subject comes before the entry of the glossary that defines its name.
var Scorer = {
  score: ([page, title, anchor, description, score]) => (page === "glossary" ? score - 1 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

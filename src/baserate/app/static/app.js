// The script of the page. It sends what the user enters, and shows the HTML that the server answers.
import { analysisPage } from "./analysis.js";
import { body } from "./page.js";
import { startPage } from "./start.js";

if (body.dataset.page === "start") startPage();
else analysisPage();

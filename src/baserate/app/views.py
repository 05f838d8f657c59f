"""What each address answers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from baserate.app import answers, uploads
from baserate.app.analyses import Analyses, Analysis
from baserate.app.commands import REPORT, SHIFT, SQL
from baserate.app.jobs import Job, Jobs
from baserate.app.pages import STATIC, render, static_file
from baserate.app.recognition import N_ROWS, preview
from baserate.app.wording import on_page
from baserate.errors import BaserateError

View = Callable[[Request], Awaitable[Response]]

_PATIENCE = 0.4  # Seconds that a request waits for a job before the page begins to show its progress.
_LARGEST_FORM = 4 << 20  # Bytes of the JSON that the page sends: numbers for thousands of classes.
_MOST_COLUMNS = 40  # Columns that have their own field in the preview.
_SHOWN_ROWS = 6
_PURPOSES = ("rates", "groups", "validation")


@dataclass(frozen=True)
class Views:
    """The views of a server.

    Attributes
    ----------
    base : str
        The beginning of all paths, which contains the token.
    analyses : Analyses
    jobs : Jobs
    max_upload : int
        Largest size of an upload, in bytes.
    """

    base: str
    analyses: Analyses
    jobs: Jobs
    max_upload: int

    def app(self) -> Starlette:
        """The application."""
        views: dict[str, tuple[str, View]] = {
            "/": ("GET", self.start),
            "/static/{name}": ("GET", self.static),
            "/upload": ("POST", self.upload),
            "/open/{number:int}": ("POST", self.open_named),
            "/a/{id}": ("GET", self.analysis),
            "/a/{id}/columns": ("POST", self.columns),
            "/a/{id}/file/{purpose}": ("POST", self.extra_file),
            "/a/{id}/groups": ("POST", self.groups),
            "/a/{id}/means": ("POST", self.means),
            "/a/{id}/quick": ("POST", self.quick),
            "/a/{id}/exact": ("POST", self.exact),
            "/a/{id}/further": ("POST", self.further),
            "/a/{id}/write": ("POST", self.write),
            "/a/{id}/download/{name}": ("GET", self.download),
            "/a/{id}/close": ("POST", self.close),
            "/job/{job}": ("GET", self.job),
            "/job/{job}/cancel": ("POST", self.cancel),
        }
        routes = [Route(path, self._with_messages(view), methods=[method]) for path, (method, view) in views.items()]
        return Starlette(routes=routes)

    async def start(self, request: Request) -> Response:
        """The first page."""
        named = [path.name for path in self.analyses.named]
        return self._html("start", named=named, limit=self.max_upload, limit_text=uploads.readable(self.max_upload))

    async def static(self, request: Request) -> Response:
        """Scripts, styles and pictures."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        content, media_type = static_file(name)
        return Response(content, media_type=media_type, headers={"Cache-Control": "max-age=3600"})

    async def upload(self, request: Request) -> Response:
        """Receive a file with predictions."""
        folder = self.analyses.folder.new_subfolder()
        try:
            name = await self._receive(request, folder)
        except BaseException:
            folder.rmdir()
            raise
        return self._opened(await run_in_threadpool(self.analyses.add, folder, name))

    async def open_named(self, request: Request) -> Response:
        """Open a file that was named when the server was started."""
        number = request.path_params["number"]
        if not 0 <= number < len(self.analyses.named):
            raise HTTPException(404)
        return self._opened(await run_in_threadpool(self.analyses.open_named, number))

    async def analysis(self, request: Request) -> Response:
        """The page of an open file."""
        return self._html("analysis", **self._about(self._find(request)), limit=self.max_upload)

    async def columns(self, request: Request) -> Response:
        """Correct what the columns are."""
        analysis, form = self._find(request), await _form(request)
        analysis.set_roles(form)
        parts = {name: render(f"_{name}", base=self.base, **self._about(analysis)) for name in ("columns", "rates")}
        return JSONResponse(parts)

    async def extra_file(self, request: Request) -> Response:
        """Receive a file with rates or validation data."""
        analysis, purpose = self._find(request), request.path_params["purpose"]
        if purpose not in _PURPOSES:
            raise HTTPException(404)
        others = {name for other, name in analysis.extra.items() if other != purpose}
        taken = analysis.taken_names | others
        name = await self._receive(request, analysis.folder, prefix=f"{purpose}-", taken=taken)
        analysis.add_file(purpose, name)
        columns = await run_in_threadpool(_columns_of, analysis.folder / name, purpose)
        return JSONResponse({"name": name, "columns": columns})

    async def groups(self, request: Request) -> Response:
        """The rates of the uploaded table per group, if they can be changed on the page."""
        analysis, form = self._find(request), await _form(request)
        table = await run_in_threadpool(analysis.group_rates, str(form.get("by")))
        return JSONResponse({"groups": {} if table is None else table.shares()})

    async def means(self, request: Request) -> Response:
        """Read the file, and say what the mean of the predictions is."""
        analysis = self._find(request)
        return await self._answer_of(self.jobs.start(partial(answers.means, analysis)))

    async def quick(self, request: Request) -> Response:
        """Answer for a sample, while a slider moves."""
        analysis, form = self._find(request), await _form(request)
        settings, rows = analysis.settings(form), analysis.loaded
        if rows is None or settings.rates is None:
            return JSONResponse({"answer": None})
        page = await run_in_threadpool(answers.quick_answer, analysis, rows, settings)
        return JSONResponse({"answer": {"html": render("_answer", **page)}})

    async def exact(self, request: Request) -> Response:
        """Answer for all rows."""
        return await self._start_job(request, answers.exact_answer, "_answer")

    async def further(self, request: Request) -> Response:
        """Plausibility and comparison, which take longer."""
        return await self._start_job(request, answers.further_answer, "_further")

    async def write(self, request: Request) -> Response:
        """Write the files for download."""
        analysis, form = self._find(request), await _form(request)
        analysis.settings(form)  # raises before the job starts

        def work(job: Job) -> dict[str, Any]:
            names = analysis.write_downloads(form, self.jobs, job)
            values = {"base": self.base, "id": analysis.id, "files": [(name, _what(name)) for name in names]}
            return {"html": render("_downloads", **values)}

        return await self._answer_of(self.jobs.start(work))

    async def download(self, request: Request) -> Response:
        """Send a file that was written."""
        analysis, name = self._find(request), request.path_params["name"]
        path = analysis.folder / name
        known = {entry.name for entry in analysis.folder.iterdir()} - {analysis.name, *analysis.extra.values()}
        if name not in known or path.is_symlink():
            raise HTTPException(404)
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
            "Content-Security-Policy": "sandbox",
        }
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    async def close(self, request: Request) -> Response:
        """Close a file and remove its copy."""
        self.analyses.close(self._find(request).id)
        return JSONResponse({"url": f"{self.base}/"})

    async def job(self, request: Request) -> Response:
        """The progress or the answer of a job."""
        return self._status(self._find_job(request))

    async def cancel(self, request: Request) -> Response:
        """Cancel a job."""
        job = self._find_job(request)
        job.cancel()
        await run_in_threadpool(job.finished.wait, 5)
        return self._status(job)

    async def _start_job(self, request: Request, answer: Callable[..., dict[str, Any]], template: str) -> Response:
        analysis, form = self._find(request), await _form(request)
        analysis.settings(form)  # raises before the job starts

        def work(job: Job) -> dict[str, Any]:
            html = render(template, **answer(analysis, form, self.jobs, job))
            return {"html": self.analyses.folder.without_paths(html)}

        return await self._answer_of(self.jobs.start(work))

    async def _answer_of(self, job: Job) -> Response:
        await run_in_threadpool(job.finished.wait, _PATIENCE)
        return self._status(job)

    async def _receive(self, request: Request, folder: Path, prefix: str = "", taken: Collection[str] = ()) -> str:
        """Write the body of a request to a folder, and return the name of the file; a taken name gets the prefix."""
        name = uploads.safe_name(request.query_params.get("name", ""))
        name = prefix + name if name in taken else name
        declared = request.headers.get("content-length", "0")
        uploads.check_size(int(declared) if declared.isdigit() else 0, self.max_upload, folder)
        path = folder / f".{secrets.token_hex(8)}.part"  # an earlier file of this name stays until this one is complete
        await uploads.receive(request.stream(), path, self.max_upload)
        try:
            await run_in_threadpool(uploads.check_expansion, path, uploads.EXPANSION * self.max_upload)
            path.replace(folder / name)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return name

    def _with_messages(self, view: View) -> View:
        """A view whose errors are answers that the page can show."""

        async def answer(request: Request) -> Response:
            try:
                return await view(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except uploads.TooLarge as error:
                return self._message(str(error), 413)
            except (BaserateError, ImportError) as error:
                # Not an error of HTTP: browsers print these on the console, but a wrong number in a form is ordinary.
                return JSONResponse({"problem": self.analyses.folder.without_paths(on_page(error))})
            except HTTPException as error:
                return self._message(error.detail, error.status_code)

        return answer

    def _message(self, text: str, status: int) -> Response:
        # A client may still be sending what is not wanted. The connection cannot be used again.
        headers = {"Connection": "close"} if status == 413 else None
        return JSONResponse({"message": self.analyses.folder.without_paths(text)}, status, headers=headers)

    def _status(self, job: Job) -> Response:
        status = job.status()
        return JSONResponse(status | {"message": self.analyses.folder.without_paths(status["message"])})

    def _about(self, analysis: Analysis) -> dict[str, Any]:
        seen, names = analysis.seen, analysis.seen.names
        shown = names[:_MOST_COLUMNS]
        return {
            "id": analysis.id,
            "name": analysis.name,
            "format": seen.format,
            "selectable": seen.selectable,
            "columns": [(name, _role(analysis, name), seen.columns[name][:_SHOWN_ROWS]) for name in shown],
            "n_columns": len(names),
            "n_hidden": len(names) - len(shown),
            "n_rows": N_ROWS,
            "roles": analysis.roles,
            "classes": analysis.classes,
            "all_columns": names,
            "one_column": len(analysis.roles.probabilities) == 1,
            "extra": analysis.extra,
        }

    def _html(self, template: str, **values: Any) -> Response:
        return HTMLResponse(render(template, base=self.base, **values))

    def _opened(self, analysis: Analysis) -> Response:
        return JSONResponse({"url": f"{self.base}/a/{analysis.id}"})

    def _find(self, request: Request) -> Analysis:
        found = self.analyses.get(request.path_params["id"])
        if found is None:
            raise HTTPException(404, "This file is no longer open. Open it again from the first page.")
        return found

    def _find_job(self, request: Request) -> Job:
        found = self.jobs.get(request.path_params["job"])
        if found is None:
            raise HTTPException(404, "This work is no longer known to the server.")
        return found


async def _form(request: Request) -> dict[str, Any]:
    """The JSON that the page sent."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_FORM:
            raise HTTPException(413, "The form is too large.")
    try:
        form = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The request is not JSON.") from None
    if not isinstance(form, dict):
        raise HTTPException(400, "The request is not a JSON object.")
    return form


def _role(analysis: Analysis, name: str) -> str:
    roles = analysis.roles
    if name in roles.probabilities:
        return "probability"
    if name in roles.groups:
        return "group"
    return "label" if name == roles.label else "weight" if name == roles.weight else "other"


def _columns_of(path: Path, purpose: str) -> list[str]:
    """The columns of a validation file or of a table of rates."""
    if purpose == "rates":
        return []
    return preview(path).names


def _what(name: str) -> str:
    """What a file is, for people who have not written it."""
    texts = {
        SHIFT: "The shift: the numbers of the adjustment, which adjust further rows (baserate apply).",
        REPORT: "The report: one page with pictures that you can send to others.",
        SQL: "The adjustment as a SQL query, for a database.",
        "rates.json": "The rates that were used, as the commands read them.",
    }
    if name.endswith("-changed.csv"):
        return "The table of rates per group, as you changed it here."
    return texts.get(name, "Your file with adjusted probabilities. Other columns are unchanged.")

"""What each address answers."""

from __future__ import annotations

import json
import secrets
import shutil
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from baserate.app import answers, uploads
from baserate.app.analyses import Analyses, Analysis
from baserate.app.extra_files import PURPOSES, check_extra_file
from baserate.app.file_names import free_name, safe_name
from baserate.app.jobs import Job, Jobs
from baserate.app.pages import STATIC, render, static_file
from baserate.app.recognition import GROUP, LABEL, N_ROWS, OTHER, PROBABILITY, WEIGHT, Roles, are_percentages
from baserate.app.wording import on_page, sentence
from baserate.errors import BaserateError

View = Callable[[Request], Awaitable[Response]]
Check = Callable[[Path], None]

_PATIENCE = 0.4  # Seconds that a request waits for a job before the page begins to show its progress.
_LARGEST_FORM = 4 << 20  # Bytes of the JSON that the page sends: numbers for thousands of classes.
_MOST_COLUMNS = 40  # Columns that have their own field in the preview.
_SHOWN_ROWS = 6


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
            "/a/{id}/download/{folder}/{name}": ("GET", self.download),
            "/a/{id}/close": ("POST", self.close),
            "/job/{job}": ("GET", self.job),
            "/job/{job}/cancel": ("POST", self.cancel),
        }
        routes = [Route(path, self._with_messages(view), methods=[method]) for path, (method, view) in views.items()]
        return Starlette(routes=routes)

    async def start(self, request: Request) -> Response:
        """The first page."""
        return self._html("start", named=[path.name for path in self.analyses.named], **self._limit())

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
        return self._opened(await self.jobs.short(self.analyses.add, folder, name))

    async def open_named(self, request: Request) -> Response:
        """Open a file that was named when the server was started."""
        number = request.path_params["number"]
        if not 0 <= number < len(self.analyses.named):
            raise HTTPException(404)
        return self._opened(await self.jobs.short(self.analyses.open_named, number))

    async def analysis(self, request: Request) -> Response:
        """The page of an open file."""
        return self._html("analysis", **self._about(self._find(request)), **self._limit())

    async def columns(self, request: Request) -> Response:
        """Correct what the columns are."""
        analysis, form = self._find(request), await _form(request)
        analysis.set_roles(form)
        parts = {name: render(f"_{name}", base=self.base, **self._about(analysis)) for name in ("columns", "rates")}
        return JSONResponse(parts)

    async def extra_file(self, request: Request) -> Response:
        """Receive a file with rates or validation data."""
        analysis, purpose = self._find(request), request.path_params["purpose"]
        if purpose not in PURPOSES:
            raise HTTPException(404)
        earlier = analysis.extra.get(purpose)
        taken = analysis.taken_names - {earlier}
        columns: list[str] = []

        def check(path: Path) -> None:
            columns.extend(check_extra_file(path, purpose, analysis, request.query_params))

        try:
            name = await self._receive(request, analysis.folder, taken, check)
        except uploads.TooLarge:
            raise
        except BaserateError as error:
            kept = "" if earlier is None else f" The file {earlier}, which you chose before, is still used."
            return self._problem(f"{sentence(on_page(error))}{kept}")
        analysis.add_file(purpose, name)
        return JSONResponse({"name": name, "columns": columns})

    async def groups(self, request: Request) -> Response:
        """The rates of the uploaded table per group, if they can be changed on the page."""
        analysis, form = self._find(request), await _form(request)
        table = None
        if form.get("rates_kind") != "counts":
            table = await self.jobs.short(analysis.group_rates, str(form.get("by")))
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
        page = await self.jobs.short(answers.quick_answer, analysis, rows, settings)
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
            folder, files = analysis.write_downloads(form, self.jobs, job)
            about = {"id": analysis.id, "folder": folder, "files": files.items()}
            return {"html": render("_downloads", base=self.base, **about)}

        return await self._answer_of(self.jobs.start(work))

    async def download(self, request: Request) -> Response:
        """Send a file that was written."""
        analysis, name = self._find(request), request.path_params["name"]
        path = analysis.written(request.path_params["folder"], name)
        if path is None:
            raise HTTPException(404, "This file is no longer kept, or was never written. Write the files again.")
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
        await self.jobs.short(job.finished.wait, 5)
        return self._status(job)

    async def _start_job(self, request: Request, answer: Callable[..., dict[str, Any]], template: str) -> Response:
        analysis, form = self._find(request), await _form(request)
        analysis.settings(form)  # raises before the job starts

        def work(job: Job) -> dict[str, Any]:
            html = render(template, base=self.base, **answer(analysis, form, self.jobs, job))
            return {"html": self.analyses.folder.without_paths(html)}

        return await self._answer_of(self.jobs.start(work))

    async def _answer_of(self, job: Job) -> Response:
        await self.jobs.short(job.finished.wait, _PATIENCE)
        return self._status(job)

    async def _receive(
        self, request: Request, folder: Path, taken: Collection[str | None] = (), check: Check | None = None
    ) -> str:
        """Write the body of a request to a folder, and return the name of the file; a taken name gets a number."""
        name = free_name(safe_name(request.query_params.get("name", "")), [one for one in taken if one is not None])
        declared = request.headers.get("content-length", "0")
        uploads.check_size(int(declared) if declared.isdigit() else 0, self.max_upload, folder)
        unfinished = folder / f".{secrets.token_hex(8)}.part"  # an earlier file stays until this one is checked
        unfinished.mkdir()
        try:
            path = unfinished / name
            await uploads.receive(request.stream(), path, self.max_upload)
            await self.jobs.short(uploads.check_expansion, path, uploads.EXPANSION * self.max_upload)
            if check is not None:
                await self.jobs.short(check, path)
            path.replace(folder / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return name

    def _with_messages(self, view: View) -> View:
        """A view whose errors are answers that the page can show."""

        async def answer(request: Request) -> Response:
            try:
                return await view(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except CancelledError:  # Ctrl-C; the thread that does the work ends with the process
                return self._message("The server was stopped.", 503)
            except uploads.TooLarge as error:
                return self._message(str(error), 413)
            except (BaserateError, ImportError, OSError) as error:  # such as a full disk
                # Not an error of HTTP: browsers print these on the console, but a wrong number in a form is ordinary.
                return self._problem(on_page(error))
            except HTTPException as error:
                return self._message(error.detail, error.status_code)

        return answer

    def _problem(self, text: str) -> Response:
        """What the page shows beside the field whose content is wrong."""
        return JSONResponse({"problem": self.analyses.folder.without_paths(text)})

    def _message(self, text: str, status: int) -> Response:
        # A client may still be sending what is not wanted. The connection cannot be used again.
        headers = {"Connection": "close"} if status == 413 else None
        return JSONResponse({"message": self.analyses.folder.without_paths(text)}, status, headers=headers)

    def _status(self, job: Job) -> Response:
        status = job.status()
        return JSONResponse(status | {"message": self.analyses.folder.without_paths(status["message"])})

    def _about(self, analysis: Analysis) -> dict[str, Any]:
        seen, names = analysis.seen, analysis.seen.names
        used = _roles(analysis.roles)
        roles = {name: used.get(name, OTHER) for name in names}
        # All others first: there may be thousands of columns with probabilities, and those are rarely wrong.
        shown = set(sorted(names, key=lambda name: roles[name] == PROBABILITY)[:_MOST_COLUMNS])
        return {
            "id": analysis.id,
            "name": analysis.name,
            "format": seen.format,
            "selectable": seen.selectable,
            "columns": [(name, roles[name], seen.columns[name][:_SHOWN_ROWS]) for name in names if name in shown],
            "hidden_columns": [(name, roles[name]) for name in names if name not in shown],
            "n_columns": len(names),
            "n_hidden": len(names) - len(shown),
            "n_rows": N_ROWS,
            "roles": analysis.roles,
            "percentages": are_percentages(seen, analysis.roles),
            "classes": analysis.classes,
            "all_columns": names,
            "one_column": len(analysis.roles.probabilities) == 1,
            "extra": analysis.extra,
        }

    def _limit(self) -> dict[str, Any]:
        return {"limit": self.max_upload, "limit_text": uploads.readable(self.max_upload)}

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


def _roles(roles: Roles) -> dict[str, str]:
    """What each column is that is used."""
    single = {name: role for name, role in ((roles.label, LABEL), (roles.weight, WEIGHT)) if name is not None}
    return dict.fromkeys(roles.groups, GROUP) | dict.fromkeys(roles.probabilities, PROBABILITY) | single

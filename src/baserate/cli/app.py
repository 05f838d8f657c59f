"""``baserate app``: a page in the browser for people who do not write code."""

from __future__ import annotations

from pathlib import Path

import click

from baserate.cli.exit_handling import handled_errors
from baserate.support.text import printable

_GIGABYTE = 1_000_000_000


@click.command(
    short_help="Open a page in the browser that does all of this without code.",
    epilog="""\b
Examples:
  baserate app
  baserate app predictions.parquet
  baserate app --port 8000 --no-open
""",
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port.  [default: any free port]")
@click.option("--no-open", is_flag=True, help="Do not open the browser; only print the address.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. With any other than the default, other machines can connect, without encryption.",
)
@click.option(
    "--max-upload",
    type=click.FloatRange(0.001, 1000),
    default=1.0,
    show_default=True,
    metavar="GB",
    help="Largest file that can be uploaded. Files that are named as FILE are not uploaded, and can have any size.",
)
def app(files: tuple[Path, ...], port: int, no_open: bool, host: str, max_upload: float) -> None:
    """Open a page in the browser: choose a file, say what is known about the class rates, see what it means, download.

    The page is served on this machine, and nothing is sent to other machines. FILE can be opened on the page without an
    upload. The page can read no other files of this machine. It is stopped with Ctrl-C.
    """
    with handled_errors("nothing was changed"):
        try:
            from baserate.app.server import is_loopback, serve
        except ModuleNotFoundError as error:
            if error.name not in ("starlette", "uvicorn", "jinja2", "anyio"):
                raise
            raise ImportError(f'the page needs {error.name}: pip install "baserate[app]"') from None
        if not is_loopback(host):
            click.secho(
                f"Warning: other machines can connect to {printable(host)}. Whoever knows the address with its token "
                "can open the named files and upload others. The connection is not encrypted.",
                fg="yellow",
                err=True,
            )
        size = int(max_upload * _GIGABYTE)
        serve(files, host=host, port=port, max_upload=size, open_browser=not no_open, tell=click.echo)

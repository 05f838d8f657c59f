"""URLs of files on this machine name the file that they spell, whatever characters its name has."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest

import baserate as br
from baserate.errors import BadOption

NAMES = ["h#1.csv", "what?.csv", "a b.csv", "100%.csv", "plain.csv"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_file_url_reads_and_writes_the_file_that_it_names(name: str, host: str, tmp_path: Path) -> None:
    for one, p in ((name, [0.2, 0.4]), (name.split("#")[0].split("?")[0], [0.7, 0.8])):
        if not (tmp_path / one).exists():
            pd.DataFrame({"p": p}).to_csv(tmp_path / one, index=False)
    out = tmp_path / f"out {name}"
    before = sorted(path.name for path in tmp_path.iterdir())
    br.adjust(
        f"file://{host}{quote(str(tmp_path))}/{quote(name)}", 0.3, columns="p", out=f"file://{host}{quote(str(out))}"
    )
    assert pd.read_csv(out)["p"].mean() == pytest.approx(0.3)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, out.name])


@pytest.mark.parametrize("name", NAMES)
def test_characters_of_a_file_url_need_not_be_escaped(name: str, tmp_path: Path) -> None:
    pd.DataFrame({"p": [0.2, 0.4]}).to_csv(tmp_path / name, index=False)
    br.adjust(f"file://{tmp_path}/{name}", 0.3, columns="p", out=f"file://{tmp_path}/out {name}")
    assert len(pd.read_csv(tmp_path / f"out {name}")) == 2


@pytest.mark.parametrize("url", ["file://tmp/x.csv", "file://x.csv", "local://server/x.csv"])
def test_a_file_url_with_two_slashes_is_refused(url: str) -> None:
    with pytest.raises(BadOption, match=r"names a file of the machine '.*'; for a file of this one, write three slash"):
        br.adjust([0.2, 0.4], 0.3).save(url)

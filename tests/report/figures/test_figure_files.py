"""All figures of a run as files: which there are, that they are whole, and what is refused."""

import numpy as np
import pytest

import allocore as ac
from allocore import figures
from allocore.report.figures import run as figure_files
from allocore.report.figures.style import Figure
from support.errors import refused
from support.figure_cases import drawable_posterior, write_without_drawing

STARTS = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<?xml"}
ENDS = {"png": b"IEND\xaeB`\x82", "pdf": b"%%EOF\n", "svg": b"</svg>\n"}


def names(files):
    return [file.name for file in files]


@pytest.fixture(scope="module", autouse=True)
def coarse():
    """These tests look at files, not at their pixels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure_files, "_DPI", 40)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One figure in all formats."""
    return list(
        figure_files.write_figure(figures.mass(drawable_posterior()), tmp_path_factory.mktemp("one") / "mass", STARTS)
    )


def test_all_figures_are_written_in_all_formats_to_a_folder_that_had_to_be_made(tmp_path, monkeypatch):
    write_without_drawing(monkeypatch)
    files = figures.write_all(drawable_posterior(), tmp_path / "new" / "folder", on_page=2)
    stems = ["classes-1", "classes-2", "over-time", "core", "factors-who", "factors-what", "factors-when", "mass"]
    expected = [f"{stem}.{kind}" for stem in [*stems, "effective-shape", "traces"] for kind in ("png", "pdf", "svg")]
    expected.append("captions.md")
    assert names(files) == expected
    assert sorted(names(files[0].parent.iterdir())) == sorted(expected), "and nothing else"


def test_every_figure_has_a_caption(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, stream, **how: stream.write(b"drawn"))
    *files, captions = figures.write_all(drawable_posterior(), tmp_path, formats="svg")
    paragraphs = captions.read_text(encoding="utf-8").split("\n\n")
    assert [text.partition(".** ")[0] for text in paragraphs] == [f"**{file.stem}" for file in files]
    assert all(len(text.partition(".** ")[2]) > 60 for text in paragraphs)


def test_a_single_figure_is_saved_with_its_caption_next_to_it(tmp_path):
    figure = figures.mass(drawable_posterior())
    caption = figure_files.save_with_caption(figure, tmp_path / "mass.png")
    assert names(sorted(tmp_path.iterdir())) == ["mass.png", "mass.txt"]
    assert caption.read_text(encoding="utf-8") == f"{figure.caption}\n"


def test_files_are_whole(files):
    assert names(files) == ["mass.png", "mass.pdf", "mass.svg"]
    for file in files:
        content = file.read_bytes()
        assert content.startswith(STARTS[file.suffix[1:]])
        assert content.endswith(ENDS[file.suffix[1:]])


def test_the_same_run_gives_the_same_files(files, tmp_path):
    again = figure_files.write_figure(figures.mass(drawable_posterior()), tmp_path / "mass", STARTS)
    for file, other in zip(again, files, strict=True):
        assert file.read_bytes() == other.read_bytes(), file.name


def test_letters_in_pdf_are_letters(files):
    content = next(file for file in files if file.suffix == ".pdf").read_bytes()
    assert b"/Type0" in content
    assert b"/Type3" not in content


def test_rows_is_the_number_of_classes_progress_hears_of_every_file_and_modes_may_have_any_name(tmp_path, monkeypatch):
    write_without_drawing(monkeypatch)
    heard = []
    post = drawable_posterior(names=("/up", "a/b", "A B"))
    written = figures.write_all(post, tmp_path, formats="svg", rows=1, progress=heard.append)
    assert heard == written
    expected = ["classes-1.svg", "over-time.svg", "core.svg", "factors-up.svg", "factors-a-b.svg", "factors-A-B-2.svg"]
    assert names(written)[:6] == expected
    assert all(file.parent == tmp_path for file in written)


@pytest.mark.parametrize(
    ("argument", "value"), [("formats", ["png", "bmp"]), ("formats", []), ("rows", 0), ("on_page", 0)]
)
def test_bad_arguments_are_named_before_anything_is_written(argument, value, tmp_path):
    with refused(argument, value):
        figures.write_all(drawable_posterior(), tmp_path / "out", **{argument: value})
    with refused("draw", 9):
        figures.write_all(drawable_posterior(), tmp_path / "out", draw=9)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_where_the_folder_should_be_is_refused_and_left_alone(below, tmp_path):
    file = tmp_path / "out"
    file.write_text("mine")
    folder = file / below if below else file
    with refused("folder", str(folder), rule="a file in its place"):
        figures.write_all(drawable_posterior(), folder)
    assert file.read_text() == "mine"


def test_a_figure_that_fails_leaves_the_old_file_and_no_half_one(tmp_path, monkeypatch):
    (tmp_path / "classes-1.png").write_bytes(b"old")
    old = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    class Broken:
        def get_figure(self, root):
            return self

        def savefig(self, stream, **how):
            stream.write(b"half")
            raise OSError("disk full")

    monkeypatch.setattr(figure_files, "classes", lambda *_, **__: Broken())
    with pytest.raises(OSError, match="disk full"):
        figures.write_all(drawable_posterior(), tmp_path, formats=["png"])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == old


def test_a_run_in_its_burn_in_has_its_traces_only(tmp_path):
    assert names(figures.write_all(drawable_posterior(draws=0, burn_in=9, sweeps=3), tmp_path, formats=["svg"])) == [
        "traces.svg",
        "captions.md",
    ]
    with refused("post", rule="no sweeps yet"):
        figures.write_all(drawable_posterior(draws=0, sweeps=0), tmp_path / "none")


@pytest.mark.parametrize(
    ("model", "size"), [(ac.CP, 2), pytest.param(ac.Tucker, (2, 1, 2), marks=pytest.mark.slow)], ids=["cp", "tucker"]
)
def test_a_fitted_model_with_fixed_locations_has_all_figures(model, size, tmp_path):
    Y = np.random.default_rng(0).poisson(1.0, (4, 3, 2))
    post = model(size, burn_in=1, draws=1, thin=1, seed=0, progress=False).fit(Y).posterior_
    assert len(figures.write_all(post, tmp_path, formats=["svg"])) == 9

"""A figure in a notebook: it shows itself, once, whether or not pyplot was imported."""

import base64

import numpy as np
import pytest

import allocore as ac
from allocore import figures
from allocore.report.figures import style as notebook_figure
from allocore.report.figures.style import Figure
from support.errors import refused
from support.figure_cases import drawable_posterior
from support.notebooks import outputs_of
from support.tiers import parametrize_few

PNG = b"\x89PNG\r\n\x1a\n"
MAKERS = {
    "mass": figures.mass,
    "factors": lambda post: figures.factors(post, 0),
    "calibration": lambda post: figures.calibration(post, test=post.tensor, allow_training=True),
    "classes": figures.classes,
    "core": figures.core,
    "effective_shape": figures.effective_shape,
    "one_class": lambda post: figures.one_class(post, 0),
    "traces": figures.traces,
}


def pictures(outputs):
    return [output for output in outputs if "image/png" in output.get("data", {})]


@parametrize_few("name", MAKERS)
def test_every_figure_is_a_matplotlib_figure_that_a_notebook_can_show(name):
    figure = MAKERS[name](drawable_posterior())
    assert isinstance(figure, Figure)
    shown, how = figure._repr_mimebundle_()
    assert base64.b64decode(shown["image/png"]).startswith(PNG)
    width, height = figure.get_size_inches()
    assert how["image/png"]["width"] / how["image/png"]["height"] == pytest.approx(width / height, rel=0.01)


def test_the_panels_of_a_figure_are_those_of_its_sheet_or_its_only_axes():
    core, mass = figures.core(drawable_posterior()), figures.mass(drawable_posterior())
    assert core.panels == core.axes[0].child_axes
    assert mass.panels == mass.axes


def test_pyplot_does_not_know_the_figures():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    figures.mass(drawable_posterior())
    assert plt.get_fignums() == before


MAKE = """
import sys
from support.figure_cases import drawable_posterior
from allocore import figures
post = drawable_posterior()
"""


@pytest.mark.slow
def test_a_notebook_shows_a_figure_once_with_and_without_pyplot(tmp_path):
    cells = outputs_of(
        tmp_path,
        MAKE,
        "figures.mass(post)",
        "assert 'matplotlib.pyplot' not in sys.modules",
        "import matplotlib.pyplot as plt\nfigures.core(post)",
        "fig, ax = plt.subplots()\nfigures.mass(post, ax)",
        "kept = figures.mass(post)",
    )
    assert [len(pictures(outputs)) for outputs in cells] == [0, 1, 0, 1, 1, 0]
    for outputs in (cells[1], cells[3]):
        assert [output["output_type"] for output in outputs] == ["execute_result"]


@pytest.fixture(scope="module")
def model():
    return ac.AlloCore(3, burn_in=2, draws=3, thin=1, seed=0, progress=False, chains=1).fit(np.array([[3, 0], [1, 4]]))


@parametrize_few("name", [name for name in MAKERS if name != "calibration"])
def test_a_figure_takes_a_fitted_model_or_the_path_of_a_run_like_its_posterior(model, tmp_path, name, monkeypatch):
    monkeypatch.setattr(notebook_figure, "_DOTS", 0.5)
    path = tmp_path / "run.zarr"
    model.posterior_.save(path)
    shown = [MAKERS[name](given)._repr_mimebundle_()[0] for given in (model.posterior_, model, path, str(path))]
    assert shown[0] == shown[1] == shown[2] == shown[3]


def test_a_model_that_is_not_fitted_and_things_without_a_posterior_are_refused():
    with pytest.raises(AttributeError, match=r"^this AlloCore has no posterior_ yet: call fit first$"):
        figures.mass(ac.AlloCore(3))
    with refused("post", "an object of type list"):
        figures.mass([1])

"""How Sphinx builds the documentation: `make docs` writes it to .cache/site, as a folder that needs no network."""

import os
import sys
from hashlib import sha256
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

from class_properties import documented_properties  # noqa: E402  the folder is on the path only now

project = "allocore"
author = "The allocore developers"
copyright = author
release = version = version_of("allocore")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "accessible",
    "command_reference",
    "reports",
]
exclude_patterns = ["_extensions", "gallery", "auto_gallery/*.ipynb", "auto_gallery/*.py", "**sg_execution_times.rst"]

# Pages in Markdown, some of them notebooks that run while the site is built.
# The first ending is that of the pages which autosummary writes.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
# A page that is in the cache runs again if its own code changes, or any of allocore's.
allocore_code = b"".join(path.read_bytes() for path in sorted((HERE.parent / "src").rglob("*.py")))
nb_execution_cache_path = str(HERE.parent / ".cache" / "notebooks" / sha256(allocore_code).hexdigest()[:16])
nb_execution_in_temp = True  # what a page writes is not left among the pages
# The kernels find the scripts that make the data of tutorials, and the command line of this Python.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE / "tutorials"), os.environ.get("PYTHONPATH")]))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["COLUMNS"] = "70"  # what commands print is as wide as a page
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The reference of Python's names.
autosummary_generate = True
autosummary_context = {"properties": documented_properties()}
smartquotes = False  # they would change quotes and dashes of commands
default_role = "py:obj"  # `CountTensor.save` in a docstring is a link
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88  # longer signatures have a line for each parameter
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("gallery_figures.save_figures",),
    "show_memory": False,
    "min_reported_time": 1e9,
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": True,
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "allocore"
html_static_path = ["_static"]
html_css_files = ["allocore.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "show_nav_level": 1,
    "back_to_top_button": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

"""Running cells in a real kernel of Jupyter, without pyplot, ipywidgets or any setting."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

# In a process of its own: sockets that nbclient leaves to the garbage collector are no business of the tests.
_RUN = """
import json, sys
import nbclient, nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

class ThisPython(KernelSpecManager):
    def get_kernel_spec(self, kernel_name):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python", language="python")

cells = [nbformat.v4.new_code_cell(cell) for cell in json.load(sys.stdin)]
manager = AsyncKernelManager(kernel_spec_manager=ThisPython(), kernel_name="python3")
book = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(book, km=manager, timeout=600).execute()
json.dump([cell.outputs for cell in book.cells], sys.stdout)
"""


def outputs_of(folder, *cells):
    """Run a notebook in a folder, with the modules that the test can import, and return the outputs of each cell."""
    if find_spec("nbclient") is None or find_spec("ipykernel") is None:
        pytest.skip("nbclient and ipykernel run notebooks")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

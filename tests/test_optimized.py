"""`python -OO`, which strips docstrings and assertions, changes nothing that users see."""

import subprocess
import sys

SCRIPT = """
import numpy as np
import allocore as ac
Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, (4, 3, 6)))
post = ac.CP(2, burn_in=4, draws=6, thin=1, chains=4, seed=1, threads=1, progress=False).fit(Y).posterior_
table = post.diagnose().table
ac.write_report(post, "report.html")
print(ac.read_events.__doc__, __debug__, float(table["ess_bulk"].iloc[0]))
"""


def test_a_run_is_diagnosed_and_reported_as_without_the_option(tmp_path):
    found = [
        subprocess.run([sys.executable, *options, "-c", SCRIPT], capture_output=True, text=True, cwd=tmp_path)
        for options in (["-OO"], [])
    ]
    assert [each.stderr for each in found] == ["", ""]
    (stripped, debug, size), whole = found[0].stdout.split(), found[1].stdout
    assert (stripped, debug) == ("None", "False")
    assert size == whole.split()[-1]
    assert (tmp_path / "report.html").exists()

"""The bytes of a few short chains. They change only together with SAMPLER_VERSION, and on purpose.

A refactoring must leave every byte alone. Vector units do not change a byte (tests/test_cpu_features.py). But C
libraries and versions of NumPy and numba differ in the last bit of exp, log and sums, so there are hashes for each
arithmetic that the tests have met. On any other the test is skipped, and the summary of pytest says so in capitals.

A chain that is new has a hash where it was made. For other kinds of arithmetic it is listed in NOT_YET until somebody
runs `python tests/test_golden_draws.py` there and adds what it prints; all other chains are still compared.

To make the hashes anew after a deliberate change: raise SAMPLER_VERSION, run `python tests/test_golden_draws.py`, and
put what it prints below, in place of all hashes.
"""

import hashlib

import numba
import numpy as np
import pytest

import allocore as ac
from allocore.gibbs import SAMPLER_VERSION
from allocore.kernels.rounding import rounding

CHAIN = {"burn_in": 12, "draws": 20, "thin": 1, "seed": 11, "threads": 2, "chains": 1, "progress": False}
POISSON = {**CHAIN, "likelihood": "poisson"}
BURSTS = {"likelihood": "negative-binomial"}
MISSING = [(0, None, None), (None, 3, 1), (5, 7, None), (None, None, 4), (2, 2, 2)]

GOLDEN_VERSION = 5
GOLDEN = {
    "509c0d94615c8e79 numpy 2.4.6 numba 0.68.1": {
        "allocore": "d0d7a9c7da8d8c2ad6e3c4919b318310",
        "allocore-missing": "51efedfffe7ddaccea48d06d98693606",
        "allocore-core-shape": "8172973807b5d709296b823334c98c04",
        "allocore-priors": "155f458e1a8ec8e6536cfa473c602ac4",
        "allocore-infer": "65ac09d56a966043f70346765a05267b",
        "cp": "1ad624f27319feed3d484f88709451bf",
        "cp-missing": "59a29c058c2b176eb1f14d31a63c8713",
        "tucker": "43d948e38c87d022661f1c0152bd6d96",
        "tucker-missing": "ddc7bf3f52eefb940716869215023443",
        "nb": "626fa7db714600687319b5360a30f2fe",
        "nb-by-mode-missing": "c7259e9dc766096b2b0af45fbd145e13",
        "bernoulli": "4bf5e2c1b3cff4c72c33a7ac656800ce",
        "e0-infer": "253554304c7c9ebd445156e77e1fa3d3",
        "e0-by-mode": "34b6ced059f4dc67dc267be89fa37de9",
        "cp-nb": "e4ac9eba5703f450ba8d16766514fb26",
        "tucker-bernoulli": "efab0333288a36acc410211dfc4843d3",
        "infer-budget-nb": "50e5bc94c883460ffeee4bb578a90488",
        "tied": "1ba9e2ad9e0982ce142e685d5a7110fc",
        "tied-cp-nb-infer": "fd6f6092fd84f3cc64256ea3443a7401",
        "nntuck-missing": "c85267cd02b51eb415b1b09b66852cdb",
    },
}
NOT_YET: dict[str, set[str]] = {}


def tensor(missing=True):
    """Counts with structure, some of them in the hundreds and thousands, with and without missing cells."""
    rng = np.random.default_rng(3)
    shape = (24, 20, 7)
    groups = [rng.integers(0, 4, length) for length in shape]
    same = (groups[0][:, None, None] == groups[1][None, :, None]) & (groups[1][None, :, None] != groups[2][None, None])
    counts = rng.poisson(np.where(same, 2.0, 0.05)) * np.where(rng.random(shape) < 0.01, 400, 1)
    Y = ac.as_tensor(counts)
    return Y.with_missing(MISSING) if missing else Y


def network():
    """The same counts between two modes of the same labels."""
    return tensor().select(mode_0=range(20)).mask_diagonal((0, 1))


CHAINS = {
    "allocore": lambda: ac.AlloCore(12, **POISSON).fit(tensor(missing=False)),
    "allocore-missing": lambda: ac.AlloCore(12, **POISSON).fit(tensor()),
    "allocore-core-shape": lambda: ac.AlloCore(40, (5, 6, 3), **{**POISSON, "chains": 2}).fit(tensor()),
    "allocore-priors": lambda: ac.AlloCore(9, a0=0.3, b0=2.0, e0=0.05, f0=1.0, alpha0=3.0, **POISSON).fit(tensor()),
    "allocore-infer": lambda: ac.AlloCore("infer", max_budget=20, **POISSON).fit(tensor()),
    "cp": lambda: ac.CP(8, **POISSON).fit(tensor(missing=False)),
    "cp-missing": lambda: ac.CP(8, **POISSON).fit(tensor()),
    "tucker": lambda: ac.Tucker((3, 4, 2), **POISSON).fit(tensor(missing=False)),
    "tucker-missing": lambda: ac.Tucker((3, 4, 2), **POISSON).fit(tensor()),
    "nb": lambda: ac.AlloCore(12, **BURSTS, **CHAIN).fit(tensor(missing=False)),
    "nb-by-mode-missing": lambda: ac.AlloCore(12, dispersion_by=1, **BURSTS, **CHAIN).fit(tensor()),
    "bernoulli": lambda: ac.AlloCore(12, likelihood="bernoulli", **CHAIN).fit(tensor().binarize()),
    "e0-infer": lambda: ac.AlloCore(12, e0="infer", **POISSON).fit(tensor()),
    "e0-by-mode": lambda: ac.AlloCore(12, e0=(0.1, 0.5, 2.0), **POISSON).fit(tensor()),
    "cp-nb": lambda: ac.CP(8, e0="infer", **BURSTS, **CHAIN).fit(tensor()),
    "tucker-bernoulli": lambda: ac.Tucker((3, 4, 2), likelihood="bernoulli", **CHAIN).fit(tensor().binarize()),
    "infer-budget-nb": lambda: ac.AlloCore("infer", max_budget=20, e0="infer", **BURSTS, **CHAIN).fit(tensor()),
    "tied": lambda: ac.AlloCore(12, tied=(0, 1), **POISSON).fit(network()),
    "tied-cp-nb-infer": lambda: ac.CP(8, tied=(0, 1), e0="infer", dispersion_by=1, **BURSTS, **CHAIN).fit(network()),
    "nntuck-missing": lambda: ac.NNTuck((3, 4, 2), restarts=2, max_iter=30, seed=5, progress=False).fit(tensor()),
}


def hashed(model):
    post = model.posterior_
    stats = [post.stats[name] for name in ("log_likelihood", "classes", "factors", "moved")]
    digest = hashlib.sha256()
    learned = [array for array in (post.record.concentrations, post.record.log_odds) if array is not None]
    for array in (post.core_values, post.core_locations, *post.factors, *stats, *learned):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def arithmetic():
    """How this machine rounds, and with which versions of the packages that compute."""
    return f"{rounding()} numpy {np.__version__} numba {numba.__version__}"


@pytest.mark.jit
@pytest.mark.parametrize("name", CHAINS)
def test_a_short_chain_has_the_bytes_it_had_when_its_sampler_version_was_new(name):
    if arithmetic() not in GOLDEN:
        pytest.skip(f"arithmetic is {arithmetic()} here; there are hashes only for {list(GOLDEN)}")
    if name in NOT_YET.get(arithmetic(), ()):
        pytest.skip(f"no hash of {name} has been made yet where arithmetic is {arithmetic()}")
    assert hashed(CHAINS[name]()) == GOLDEN[arithmetic()][name], "raise SAMPLER_VERSION if the draws changed on purpose"


def test_the_hashes_are_those_of_this_sampler_version():
    assert GOLDEN_VERSION == SAMPLER_VERSION
    assert NOT_YET.keys() <= GOLDEN.keys()
    for known, hashes in GOLDEN.items():
        missing = NOT_YET.get(known, set())
        assert hashes.keys() | missing == CHAINS.keys()
        assert not hashes.keys() & missing, "a chain that has a hash is judged by it"
    for name in CHAINS:
        assert any(name in hashes for hashes in GOLDEN.values()), f"{name} is judged nowhere"


@pytest.mark.jit
def test_the_hash_sees_a_change_in_the_last_bit_of_one_draw():
    model = CHAINS["cp"]()
    before = hashed(model)
    values = model.posterior_.core_values.copy()
    values[0, 1, 2] = np.nextafter(values[0, 1, 2], np.inf)

    class Changed:
        class posterior_:
            core_values, core_locations = values, model.posterior_.core_locations
            factors, stats, record = model.posterior_.factors, model.posterior_.stats, model.posterior_.record

    assert hashed(Changed) != before


if __name__ == "__main__":
    print(f'GOLDEN_VERSION = {SAMPLER_VERSION}\nGOLDEN = {{\n    "{arithmetic()}": {{')
    for name, fit in CHAINS.items():
        print(f'        "{name}": "{hashed(fit())}",')
    print("    },\n}")

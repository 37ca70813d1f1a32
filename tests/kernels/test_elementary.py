"""exp and log of arrays, and that whatever decides a draw uses them in place of NumPy's own."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

import allocore
from allocore.kernels.elementary import exp_of, log_of, log_sums

PACKAGE = Path(allocore.__file__).parent
# What NumPy or BLAS compute differently where vectors are wider, as measured with NPY_DISABLE_CPU_FEATURES and
# OPENBLAS_CORETYPE; and logsumexp and softmax, which are made of NumPy's exp and log.
DIFFERS = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos",
    "arctan", "arcsinh", "arccosh", "arctanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "dot", "vdot",
    "inner", "matmul", "tensordot", "logsumexp", "softmax",
}  # fmt: skip
COMPILED = {"kernel", "part", "inlined"}
DECIDES_DRAWS = [
    *(PACKAGE / "gibbs").glob("*.py"),
    *(PACKAGE / "em").glob("*.py"),
    *(PACKAGE / "kernels").glob("*.py"),
    *(PACKAGE / "run").glob("*.py"),
    PACKAGE / "model" / "state.py",
    PACKAGE / "model" / "simulate.py",
]


def what_differs(source):
    """Where a module calls a function that depends on the processor, outside what is compiled."""
    found = []

    class Visitor(ast.NodeVisitor):
        def visit_FunctionDef(self, node):
            if not COMPILED & {each.id for each in node.decorator_list if isinstance(each, ast.Name)}:
                self.generic_visit(node)

        def visit_Attribute(self, node):
            if isinstance(node.value, ast.Name) and node.value.id == "np" and node.attr in DIFFERS:
                found.append(f"np.{node.attr} in line {node.lineno}")
            self.generic_visit(node)

        def visit_ImportFrom(self, node):
            if node.module in ("numpy", "scipy.special"):
                found.extend(f"{each.name} of {node.module}" for each in node.names if each.name in DIFFERS)

        def visit_BinOp(self, node):
            if isinstance(node.op, ast.MatMult):
                found.append(f"@ in line {node.lineno}")
            self.generic_visit(node)

    Visitor().visit(ast.parse(source))
    return found


@pytest.mark.parametrize("path", DECIDES_DRAWS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_decides_draws_calls_nothing_that_depends_on_the_processor(path):
    assert what_differs(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = np.exp(y)", ["np.exp in line 1"]),
        ("def f(x):\n    return np.add(x, np.log(x))", ["np.log in line 2"]),
        ("from scipy.special import gammaln, logsumexp", ["logsumexp of scipy.special"]),
        ("y = x @ x", ["@ in line 1"]),
        ("@kernel\ndef f(x):\n    return np.exp(x)", []),
        ("x = np.sqrt(y) + np.logaddexp(0.0, y)", []),
    ],
)
def test_the_search_finds_what_is_planted(source, found):
    assert what_differs(source) == found


def units_in_the_last_place(ours, exact):
    return np.abs(ours - exact) / np.spacing(np.abs(exact))


def test_exp_and_log_are_good_to_the_last_place():
    """Against the C library, which rounds nearly all numbers correctly: small and large, near 1, and subnormal."""
    rng = np.random.default_rng(1)
    exponents = np.concatenate([scale * rng.normal(size=2_000) for scale in (200.0, 1.0, 1e-8)] + [[-744.5, 709.7]])
    exponents = exponents[(exponents > -745.0) & (exponents < 709.7)]
    exact = np.array([math.exp(each) for each in exponents.tolist()])
    assert units_in_the_last_place(exp_of(exponents), exact).max() <= 1.0
    numbers = np.concatenate([exact[exact > 0], 1.0 + 1e-3 * rng.normal(size=2_000), rng.random(2_000) * 1e-310])
    exact = np.array([math.log(each) for each in numbers.tolist()])
    assert units_in_the_last_place(log_of(numbers), exact).max() <= 1.0


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4)])
def test_arrays_keep_their_shape_whatever_their_order_in_memory(shape):
    numbers = np.random.default_rng(2).random(shape)
    for given in (numbers, numbers.T, np.repeat(numbers, 2, axis=-1)[..., ::2] if shape else numbers):
        assert exp_of(given).shape == given.shape
        assert np.allclose(exp_of(given), np.exp(given), rtol=1e-15)
        assert np.allclose(log_of(given), np.log(given), rtol=1e-14)


@pytest.mark.jit
def test_zero_and_the_infinities_are_no_error():
    assert exp_of([-np.inf, 0.0, np.inf]).tolist() == [0.0, 1.0, np.inf]
    assert np.isnan(exp_of(np.nan))
    assert np.isnan(log_of(np.nan))
    assert log_of([0.0, 1.0, np.inf]).tolist() == [-np.inf, 0.0, np.inf]
    assert float(exp_of(-np.inf)) == 0.0


@pytest.mark.jit
def test_what_is_beyond_floats_is_infinite_without_a_warning():
    assert exp_of([800.0, -800.0]).tolist() == [np.inf, 0.0]


def test_log_sums_are_those_of_logsumexp():
    logs = np.random.default_rng(3).normal(size=(50, 9)) * 300.0
    logs[0, 1:], logs[1], logs[2] = -np.inf, -np.inf, 0.0
    assert np.allclose(log_sums(logs), logsumexp(logs, axis=1), rtol=1e-14)

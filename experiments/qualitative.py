"""One large run to look at: its shrinkage, its classes, and a report to explore.

Usage: python experiments/qualitative.py [DATA] [--full] [--out FOLDER] [--cluster ADDRESS]
"""

from pathlib import Path

import typer
from setting import Cluster, Data, Full, Out, Seed, cluster_of, fitting, folder_of, tensor_of

import allocore as ac
from allocore.storage.record import fingerprint


def main(data: Data = None, full: Full = False, out: Out = None, seed: Seed = 0, cluster: Cluster = None) -> None:
    """Fit the model, or continue a stopped run; write the run, its figures and its report."""
    folder = folder_of(out, "qualitative", full)
    path = folder / "run.zarr"
    tensor = tensor_of(data, full, seed)
    print(tensor)
    with cluster_of(cluster) as executor:
        begun = path.exists()
        model = go_on(path, tensor, seed, executor) if begun else fit(tensor, full, seed, path, executor)
    posterior = model.posterior_
    posterior.show(rows=20)
    ac.figures.write_all(posterior, folder / "figures", formats=("png", "pdf"))
    report = ac.write_report(posterior, folder / "report.html", title="The qualitative run")
    print(f"Figures in {folder / 'figures'}, and a page to explore: {report}")


def go_on(path: Path, tensor: ac.CountTensor, seed: int, executor: object = None) -> ac.AlloCore:
    """Continue a run, if it has the same data and seed."""
    begun = ac.open_run(path)
    if fingerprint(begun.tensor) != fingerprint(tensor) or begun.seed != seed:
        raise typer.BadParameter(f"{path} is a run of other data or another seed: name another folder with --out")
    return ac.AlloCore.resume(path, executor=executor)


def fit(tensor: ac.CountTensor, full: bool, seed: int, path: Path, executor: object = None) -> ac.AlloCore:
    """The paper's run: Q = 400, core 50 x 50 x 20 x 300, 10,000 sweeps. The quick run has a tenth of the sweeps."""
    sizes = (50, 50, 20, 300) if full else (20, 20, 10, 36)
    core = sizes if len(sizes) == tensor.ndim else fitting(sizes, tensor)
    schedule = {"burn_in": 6000, "draws": 200, "thin": 20} if full else {"burn_in": 600, "draws": 50, "thin": 8}
    model = ac.AlloCore(400 if full else 60, core, likelihood="poisson", chains=2, seed=seed, store=path, **schedule)
    return model.set_params(executor=executor).fit(tensor)


if __name__ == "__main__":
    typer.run(main)

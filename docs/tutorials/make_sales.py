"""Write an invented table of sales, sales.csv, with what shops know: seasons, kinds of stores, promotions."""

from pathlib import Path

import numpy as np
import pandas as pd

WEEKS = pd.date_range("2021-09-27", "2024-10-21", freq="W-MON")
PRODUCTS = {
    "lunch": ["sandwich", "salad", "coffee", "juice"],
    "snacks": ["energy drink", "instant noodles", "crisps", "coffee"],
    "household": ["nappies", "baby food", "detergent", "milk"],
    "pantry": ["tea", "bread", "soup", "milk"],
    "school": ["notebook", "pens", "school bag"],
    "summer": ["ice cream", "sunscreen", "charcoal", "lemonade"],
    "christmas": ["gingerbread", "wrapping paper", "candles"],
}
STORES = {"campus": [1, 2, 3], "city": [4, 5, 6], "suburb": [7, 8, 9, 10], "seaside": [11, 12]}
# A season is a share of the year around a middle, in weeks, and what is sold outside it.
SEASONS = {
    "all year": (26, 1e6, 0.0),
    "winter": (2, 8, 0.3),
    "summer": (29, 4, 0.05),
    "September": (36, 1.5, 0.02),
    "Christmas": (50, 2, 0.01),
}
# Segment, products, kinds of stores, season, expected units.
CLASSES = pd.DataFrame(
    [
        ("professionals", "lunch", ["city"], "all year", 22_000),
        ("students", "snacks", ["campus"], "all year", 18_000),
        ("families", "household", ["suburb"], "all year", 22_000),
        ("seniors", "pantry", ["suburb", "city"], "winter", 18_000),
        ("families", "summer", ["seaside", "suburb"], "summer", 14_000),
        ("students", "school", ["campus"], "September", 6_000),
        ("families", "school", ["suburb"], "September", 6_000),
        ("families", "christmas", ["suburb", "city"], "Christmas", 8_000),
    ],
    columns=["segment", "products", "stores", "season", "units"],
)


def season(name: str) -> np.ndarray:
    """How much of a season each week has."""
    middle, width, rest = SEASONS[name]
    distance = np.abs(WEEKS.isocalendar().week.to_numpy(float) - middle)
    distance = np.minimum(distance, 52 - distance)
    return rest + np.exp(-0.5 * (distance / width) ** 2)


def expected_units() -> tuple[list[str], list[str], list[int], np.ndarray]:
    """Segments, products, stores, and the expected units of each of them in every week."""
    segments = sorted(set(CLASSES["segment"]))
    products = sorted({product for group in PRODUCTS.values() for product in group})
    stores = [store for kind in STORES.values() for store in kind]
    mean = np.full((len(segments), len(products), len(stores), len(WEEKS)), 0.001)
    for segment, group, kinds, name, units in CLASSES.itertuples(index=False):
        open_in = [store for kind in kinds for store in STORES[kind]]
        profiles = [
            np.array([float(each == segment) for each in segments]),
            np.array([1 / (1 + PRODUCTS[group].index(each)) if each in PRODUCTS[group] else 0 for each in products]),
            np.array([1 + store % 3 / 2 if store in open_in else 0 for store in stores]),
            season(name),
        ]
        product = np.einsum("s,p,h,w->sphw", *profiles)
        mean += units * product / product.sum()
    return segments, products, stores, mean


def write_sales(path: str | Path, seed: int = 1) -> pd.DataFrame:
    """Write the table, and return the promotions: product, store and week."""
    rng = np.random.default_rng(seed)
    segments, products, stores, mean = expected_units()
    busy = np.argwhere(mean.sum(axis=0) > 4)
    chosen = rng.choice(busy, size=30, replace=False)
    for p, s, w in chosen:  # promotions
        mean[:, p, s, w] *= 5
    closed = (WEEKS >= "2023-03-06") & (WEEKS <= "2023-04-24")
    mean[:, :, stores.index(5), closed] = 1e-12  # store 5 was rebuilt
    units = rng.negative_binomial(mean, 0.5)  # the variance is twice the mean
    place = np.nonzero(units)
    monday = WEEKS.to_numpy()[place[3]]
    table = pd.DataFrame(
        {
            "date": monday + rng.integers(6, size=monday.size).astype("timedelta64[D]"),
            "segment": np.array(segments)[place[0]],
            "product": np.array(products)[place[1]],
            "store": np.array(stores)[place[2]],
            "units": units[place],
        }
    )
    returned = table.sample(30, random_state=seed).assign(units=-1)
    pd.concat([table, returned]).sort_values("date", kind="stable").to_csv(path, index=False)
    promotions = {"product": np.array(products)[chosen[:, 0]], "store": np.array(stores)[chosen[:, 1]].astype(str)}
    return pd.DataFrame({**promotions, "week": WEEKS[chosen[:, 2]].strftime("%Y-%m-%d")})

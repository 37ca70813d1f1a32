"""The flights that come with the package."""

from importlib.resources import files

from allocore.tensor.files import load_flights, load_tensor


def test_every_flight_of_2013_is_counted():
    tensor = load_flights()
    assert tensor.total == 336_776
    assert tensor.nnz == 16_914
    assert tensor.shape == (3, 105, 16, 12, 20)
    assert tensor.mode_names == ("origin", "destination", "carrier", "month", "hour")
    assert len(tensor.missing) == 0


def test_the_labels_are_readable():
    origin, destination, carrier, month, hour = load_flights().labels
    assert origin == ("EWR Newark", "JFK New York Kennedy", "LGA New York LaGuardia")
    assert "LAX Los Angeles" in destination
    assert "JetBlue Airways" in carrier
    assert month[0] == "Jan"
    assert month[-1] == "Dec"
    assert hour[1:3] == ("05:00", "06:00")
    assert load_flights().top_labels("destination", top=1) == [("ORD Chicago O'Hare", 17_283)]


def test_no_flight_leaves_for_its_own_airport():
    tensor = load_flights()
    origins = [label[:3] for label in tensor.labels[0]]
    destinations = [label[:3] for label in tensor.labels[1]]
    same = [origins[i] == destinations[j] for i, j in tensor.coords[:2].T.tolist()]
    assert not any(same)


def test_the_file_is_small_and_comes_with_its_licence():
    folder = files("allocore.tensor")
    assert len((folder / "flights.npz").read_bytes()) < 100_000
    assert "CC0" in (folder / "flights.LICENSE").read_text()
    assert load_tensor(folder / "flights.npz") == load_flights()

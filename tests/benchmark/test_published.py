"""The paper's figures, against values copied from its tables by hand; and which data set a feature set is of."""

import pytest

from newkinds.benchmark.published import (
    CITATION,
    CONTINUAL,
    CONTINUAL_CITATION,
    DATASETS,
    ESTIMATED_K,
    INFOMAX,
    INIT,
    K_ERROR,
    K_ERROR_NOTE,
    LOSS_TERMS,
    MAIN,
    MAIN_STD,
    PARTITION_ESTIMATED_K,
    TRAINED_ALONG,
    Scores,
    dataset_of,
    source_note,
)
from newkinds.errors import InputError
from newkinds.objective import ABLATION

NAMES = ["CUB", "Stanford Cars", "Herbarium19", "CIFAR10", "CIFAR100", "ImageNet-100"]


def sums(table: Scores) -> dict[str, tuple[float, ...]]:
    """Of each row, over the data sets: All, Old, New."""
    return {
        row: tuple(round(sum(column), 1) for column in zip(*cells.values(), strict=True))
        for row, cells in table.items()
    }


@pytest.mark.parametrize("table", [MAIN, MAIN_STD, PARTITION_ESTIMATED_K, INIT, LOSS_TERMS])
def test_every_row_has_all_data_sets_in_the_order_of_the_main_table(table):
    assert list(DATASETS) == NAMES
    for row in table.values():
        assert list(row) == NAMES


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("CUB", (100, 200, 1498, 4496)),
        ("Stanford Cars", (98, 196, 2000, 6144)),
        ("Herbarium19", (341, 683, 8869, 25356)),
        ("CIFAR10", (5, 10, 12500, 37500)),
        ("CIFAR100", (80, 100, 20000, 30000)),
        ("ImageNet-100", (50, 100, 31860, 95255)),
    ],
)
def test_the_sizes_of_the_data_sets(name, sizes):
    dataset = DATASETS[name]
    assert (dataset.n_known, dataset.n_categories, dataset.n_labelled, dataset.n_unlabelled) == sizes


def test_the_main_table():
    assert sums(MAIN) == {
        "k-means": (268.3, 275.8, 263.3),
        "RankStats+": (231.6, 327.6, 153.7),
        "UNO+": (307.3, 447.1, 220.3),
        "ORCA (ResNet50)": (277.9, 307.7, 247.3),
        "ORCA (ViT-B/16)": (340.0, 393.5, 299.3),
        "GCD": (362.1, 430.5, 317.1),
        "RIM (semi-sup.)": (371.9, 434.9, 332.2),
        "TIM": (376.0, 435.4, 338.1),
        "PIM": (404.2, 475.6, 359.4),
    }
    assert MAIN["k-means"]["CUB"] == (34.3, 38.9, 32.1)
    assert MAIN["k-means"]["Herbarium19"] == (12.9, 12.9, 12.8)
    assert MAIN["RankStats+"]["CIFAR10"] == (46.8, 19.2, 60.5)
    assert MAIN["UNO+"]["Stanford Cars"] == (35.5, 70.5, 18.6)
    assert MAIN["ORCA (ResNet50)"]["CIFAR100"] == (55.1, 65.5, 34.4)
    assert MAIN["ORCA (ViT-B/16)"]["CIFAR10"] == (97.1, 96.2, 97.6)
    assert MAIN["GCD"]["ImageNet-100"] == (74.1, 89.8, 66.3)
    assert MAIN["RIM (semi-sup.)"]["Herbarium19"] == (40.1, 57.6, 30.7)
    assert MAIN["TIM"]["CUB"] == (53.4, 51.8, 54.2)
    assert MAIN["PIM"] == {
        "CUB": (62.7, 75.7, 56.2),
        "Stanford Cars": (43.1, 66.9, 31.6),
        "Herbarium19": (42.3, 56.1, 34.8),
        "CIFAR10": (94.7, 97.4, 93.3),
        "CIFAR100": (78.3, 84.2, 66.5),
        "ImageNet-100": (83.1, 95.3, 77.0),
    }
    cub = MAIN["PIM"]["CUB"]
    assert (cub.all, cub.old, cub.new) == (62.7, 75.7, 56.2)


def test_the_spread_of_five_trainings():
    assert sums(MAIN_STD) == {"PIM": (2.4, 3.0, 4.5)}
    assert MAIN_STD["PIM"]["CUB"] == (0.5, 0.8, 0.7)
    assert MAIN_STD["PIM"]["CIFAR100"] == (1.0, 0.5, 2.8)


def test_the_estimated_numbers_of_classes_and_their_errors():
    assert [list(row.values()) for row in ESTIMATED_K.values()] == [
        [231, 230, 520, 9, 100, 109],
        [227, 169, 563, 10, 95, 102],
    ]
    assert {rule: [row[name] for name in NAMES] for rule, row in K_ERROR.items()} == {
        "Max-ACC (GCD)": [16, 15, 24, 10, 0, 9],
        "Max-ACC (PIM)": [14, 13, 18, 0, 5, 2],
    }


def test_printed_errors_are_those_of_the_formula_but_for_the_ones_noted():
    for rule, row in ESTIMATED_K.items():
        for name, k in row.items():
            error = 100 * abs(k - DATASETS[name].n_categories) / DATASETS[name].n_categories
            if name == "Stanford Cars":
                assert f"{error:.1f}" in K_ERROR_NOTE
                assert str(K_ERROR[rule][name]) in K_ERROR_NOTE
            else:
                assert abs(error - K_ERROR[rule][name]) < 1


def test_the_partition_with_the_estimated_number():
    assert sums(PARTITION_ESTIMATED_K) == {"GCD": (356.6, 433.3, 307.6), "PIM": (399.7, 470.8, 354.9)}
    assert PARTITION_ESTIMATED_K["GCD"]["CIFAR10"] == (80.5, 97.9, 71.8)
    assert PARTITION_ESTIMATED_K["PIM"]["CIFAR100"] == (75.6, 81.6, 63.6)


def test_the_starts():
    assert sums(INIT) == {
        "ssRDM": (402.6, 474.0, 356.2),
        "ssKM++": (406.9, 474.3, 364.6),
        "ssKM": (404.2, 475.6, 359.4),
    }
    assert INIT["ssRDM"]["Herbarium19"] == (42.7, 55.3, 36.0)
    assert INIT["ssKM++"]["CUB"] == (64.3, 76.3, 58.4)
    assert INIT["ssKM"] == MAIN["PIM"]


def test_the_terms_of_the_loss_are_in_the_order_of_our_objectives():
    assert list(sums(LOSS_TERMS).values()) == [
        (148.5, 184.8, 132.2),
        (318.5, 399.1, 268.1),
        (370.2, 412.0, 334.5),
        (390.2, 441.1, 359.3),
        (385.4, 474.1, 324.7),
        (404.2, 475.6, 359.4),
    ]
    rows = list(LOSS_TERMS.values())
    assert rows[0]["Stanford Cars"] == (2.5, 0.0, 3.6)
    assert rows[4]["CUB"] == (58.3, 72.8, 51.1)
    assert rows[5] == MAIN["PIM"]
    marginals = {"none": "−H(Y|Z)", "unlabelled": "H(Y) on Z_U −", "all": "H(Y) on Z −"}
    for label, objective in zip(LOSS_TERMS, ABLATION, strict=True):
        assert label.startswith(marginals[objective.marginal])
        assert ("no labels" in label) == (objective.cross_entropy == 0)


def test_a_note_says_how_rows_were_obtained_each_source_once():
    assert source_note("k-means", "GCD", "TIM") == (
        "k-means: raw features of DINO ViT-B/16; GCD, TIM: features of DINO ViT-B/16 fine-tuned on the data set."
    )
    assert "ResNet-50" in source_note("ORCA (ResNet50)")
    assert source_note(*MAIN).count("trained together") == 3
    assert all("trained together" in source_note(row) for row in TRAINED_ALONG)
    assert set(TRAINED_ALONG) | set(INFOMAX) < set(MAIN)
    for table in (MAIN, PARTITION_ESTIMATED_K, INIT, LOSS_TERMS):
        assert source_note(*table)
    with pytest.raises(InputError, match=r"no published row 'SimGCD'; choose from k-means"):
        source_note("SimGCD")


def test_the_paper_has_a_name():
    assert "ICCV 2023" in CITATION


@pytest.mark.parametrize(
    ("dataset", "names"),
    [
        ("CUB", "cub CUB_200 cub200 CUB_200_2011 cub_tinyvit"),
        ("Stanford Cars", "scars SCars stanford_cars StanfordCars stanford-cars-dino cars cars196"),
        ("Herbarium19", "herbarium_19 herbarium19 herb19 herb_19_dino herbarium Herbarium2019"),
        ("CIFAR10", "cifar10 CIFAR-10 cifar_10 cifar10_0 cifar10_100epochs cifar-10-batches-py"),
        ("CIFAR100", "cifar100 CIFAR-100 cifar_100 cifar100_20k_tinyvit cifar100_10"),
        ("ImageNet-100", "imagenet_100 imagenet100 ImageNet-100 imagenet100_dino"),
    ],
)
def test_a_feature_set_is_of_the_data_set_that_its_name_begins_with(dataset, names):
    n_categories = DATASETS[dataset].n_categories
    assert {name: dataset_of(name, n_categories) for name in names.split()} == dict.fromkeys(names.split(), dataset)
    assert {dataset_of(name, n_categories + 1) for name in names.split()} == {None}
    assert dataset_of(f"my {dataset}", n_categories) is None


@pytest.mark.parametrize(
    "name", ["cifar100lt_tinyvit", "CIFAR100-LT", "cifar100_longtailed", "Cifar 100 long-tail"]
)
def test_a_long_tailed_version_is_none_of_the_papers(name):
    assert dataset_of(name, 100) is None


def test_other_sets_are_none_of_the_papers():
    others = ["banking77_minilm", "clinc150_minilm", "fgvc_aircraft", "incubator", "cifar", "", "100", "cub200lt"]
    for n_categories in {dataset.n_categories for dataset in DATASETS.values()} | {77, 150}:
        assert {dataset_of(name, n_categories) for name in others} == {None}


@pytest.mark.parametrize("name", ["CIFAR100", "ImageNet-100"])
def test_in_published_stages_all_is_the_mean_of_old_and_new_by_their_classes(name: str) -> None:
    """Both have test sets of even size, 50 classes at first and 10 more in each stage; one figure is printed so."""
    odd = []
    for row, cells in CONTINUAL.items():
        assert len(cells[name].stages) == 5
        for place, stage in enumerate(cells[name].stages):
            mean = ((50 + 10 * place) * stage.old + 10 * stage.new) / (60 + 10 * place)
            if stage.all != pytest.approx(mean, abs=0.02):
                odd.append((row, place + 1, stage.all))
    assert odd == ([("MetaGCD", 2, 73.79)] if name == "ImageNet-100" else [])


@pytest.mark.parametrize(("name", "means"), [("CIFAR100", (69.00, 71.82, 51.36)), ("CUB", (68.88, 71.29, 53.13))])
def test_means_over_published_stages_are_the_printed_ones(name: str, means: tuple[float, ...]) -> None:
    """Of a second table of the same publication."""
    assert [round(figure, 2) for figure in CONTINUAL["Happy"][name].mean] == list(means)
    assert CONTINUAL["Happy"]["CUB"].first == 90.26
    assert "NeurIPS 2024" in CONTINUAL_CITATION

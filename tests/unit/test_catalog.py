"""Catalogs: what the shipped one says of known machines, the three layouts, selection, frames, what is kept out."""

import csv
import pickle
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from mopt import InputError, Resource
from mopt.accelerators import accelerators, cpu_family, find_accelerator
from mopt.catalog import Catalog, load_catalog
from mopt.resource import PRECISIONS

DATA = Path(__file__).parent / "data"
AWS = "AWS/us-east-1/"


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="module")
def both() -> Catalog:
    return load_catalog(spot=True)


# Figures of the providers' price lists and the vendors' datasheets; dense, not sparse.
KNOWN = [
    # name, accelerator, count, fp16 TFLOP/s each, GB/s each, GB each, $/h
    (AWS + "p4d.24xlarge", "A100", 8, 312, 1555, 40, 21.957642),
    (AWS + "g5.xlarge", "A10G", 1, 70, 600, 24, 1.006),
    (AWS + "g5.48xlarge", "A10G", 8, 70, 600, 24, 16.288),
    (AWS + "g6.xlarge", "L4", 1, 121, 300, 24, 0.8048),
    (AWS + "p5.48xlarge", "H100", 8, 989, 3350, 80, 55.04),
    (AWS + "trn1.32xlarge", "Trainium", 16, 190, 820, 32, 21.5),
    ("GCP/us-central1/a2-megagpu-16g", "A100", 16, 312, 1555, 40, 55.7395),
    ("Azure/eastus/Standard_NC40ads_H100_v5", "H100-NVL", 1, 835, 3938, 94, 6.98),
    ("Azure/eastus/Standard_NC96ads_A100_v4", "A100-80GB-PCIe", 4, 312, 1935, 80, 14.692),
]


@pytest.mark.parametrize(("name", "accelerator", "count", "fp16", "bandwidth", "memory", "price"), KNOWN)
def test_known_machines(shipped, name, accelerator, count, fp16, bandwidth, memory, price):
    resource = shipped[name]
    assert (resource.accelerator, resource.accelerator_count) == (accelerator, count)
    assert resource.peak("fp16") == pytest.approx(count * fp16 * 1e12)
    assert resource.memory_bandwidth == pytest.approx(count * bandwidth * 1e9)
    assert resource.memory == pytest.approx(count * memory * 1e9)
    assert resource.price_per_hour == price
    assert not resource.spot


def test_every_listed_offer_is_accounted_for(shipped):
    assert len(shipped) + len(shipped.rejected) == 1319
    assert Counter(resource.provider for resource in shipped) == {"AWS": 129, "GCP": 351, "Azure": 737}
    assert Counter(name.split("/")[0] for name in shipped.rejected) == {"AWS": 1, "GCP": 37, "Azure": 64}
    assert shipped.rejected[AWS + "dl1.24xlarge"] == "no peak FLOP/s is known of Gaudi"


def test_shipped_prices_are_all_real(shipped):
    assert not [reason for reason in shipped.rejected.values() if "$" in reason or "price" in reason]


def test_spot_offers_come_on_request_and_are_accounted_for(shipped, both):
    assert {resource.spot for resource in shipped} == {False}
    assert both.where(spot=False) == shipped
    spot = both.where(spot=True)
    assert all(resource.name.endswith("/spot") for resource in spot)
    assert len(both) + len(both.rejected) == 1319 + 510  # 510 rows have a spot price
    on_demand = both[AWS + "g5.xlarge"]
    offer = both[AWS + "g5.xlarge/spot"]
    assert offer.price_per_hour < on_demand.price_per_hour
    assert offer.peak_flops == on_demand.peak_flops


def test_aws_us_east_1_has_36_accelerators_and_counts_at_half_precision(shipped):
    """The 36 count Inferentia and Inferentia2, which don't train, but no CPUs with bf16 units."""
    kind = {name: accelerator.kind for name, accelerator in accelerators().items()}
    half = [r for r in shipped.where(provider="AWS", region="us-east-1") if r.peak("fp16")]
    pairs = {(r.accelerator, r.accelerator_count, r.trains) for r in half if kind[r.accelerator] != "cpu"}
    assert len(pairs) == 36
    assert Counter(trains for _, _, trains in pairs) == {True: 30, False: 6}
    assert {r.accelerator for r in half} - {name for name, _, _ in pairs} == {"Xeon-8488C", "EPYC-9R14", "Graviton3"}


def test_inference_only_chips_are_exactly_inferentia(shipped):
    assert {resource.accelerator for resource in shipped if not resource.trains} == {"Inferentia", "Inferentia2"}


@pytest.mark.parametrize(("size", "share"), [("4", 1 / 8), ("8", 1 / 4), ("16", 1 / 2), ("32", 1)])
def test_a_part_of_an_accelerator_is_one_with_that_share_of_it(shipped, size, share):
    part = shipped[f"Azure/eastus/Standard_NV{size}as_v4"]
    assert part.accelerator_count == 1
    assert part.peak("fp16") == pytest.approx(share * 24.6e12)
    assert part.memory_bandwidth == pytest.approx(share * 484e9)
    assert part.memory == pytest.approx(share * 16e9)


@pytest.mark.parametrize(
    ("name", "cpu", "sockets", "fp32", "bandwidth", "gib"),
    [
        ("c5.24xlarge", "Xeon-8275CL", 2, 4.61, 141, 192),
        ("c5.xlarge", "Xeon-8275CL", 4 / 48, 4.61, 141, 8),
        ("c7i.24xlarge", "Xeon-8488C", 1, 7.37, 307, 192),
        ("c7a.48xlarge", "EPYC-9R14", 2, 11.37, 461, 384),
        ("m7g.16xlarge", "Graviton3", 1, 5.32, 307, 256),
    ],
)
def test_a_cpu_instance_has_its_share_of_the_sockets(shipped, name, cpu, sockets, fp32, bandwidth, gib):
    resource = shipped[AWS + name]
    assert (resource.accelerator, resource.accelerator_count, resource.trains) == (cpu, 1, True)
    assert resource.peak("fp32") == pytest.approx(sockets * fp32 * 1e12)
    assert resource.memory_bandwidth == pytest.approx(sockets * bandwidth * 1e9)
    assert resource.memory == gib * 2**30


def test_threads_and_cores_are_told_apart(shipped):
    """Fasv6 sells cores and Dasv6 threads of the same CPU: half the share for as many vCPUs."""
    cores, threads = shipped["Azure/eastus/Standard_F16as_v6"], shipped["Azure/eastus/Standard_D16as_v6"]
    assert cores.accelerator == threads.accelerator == "EPYC-9V74"
    assert cores.peak("fp32") == pytest.approx(2 * threads.peak("fp32"))


def test_network_and_source(shipped):
    resource = shipped[AWS + "p4d.24xlarge"]
    assert resource.network_bandwidth == 400e9 / 8
    assert "karpenter-provider-aws@1d92708" in resource.source
    assert resource.source.endswith("2026-07-20")
    assert shipped["GCP/us-central1/g2-standard-4"].network_bandwidth is None


def test_every_accelerator_of_the_table_is_found_by_its_name():
    for name, accelerator in accelerators().items():
        assert find_accelerator(name) == accelerator


@pytest.mark.parametrize(
    ("label", "memory", "hints", "name"),
    [
        ("A100", (), "", "A100"),
        ("A100", (80.0,), "", "A100-80GB"),
        ("A100", (80.0, 40.0), "2x-A100_SXM4", "A100"),
        ("A100-80GB-SXM", (), "", "A100-80GB"),
        ("A100-80GB", (640.0, 80.0), "A100 PCIe", "A100-80GB-PCIe"),
        ("H100", (93.6,), "", "H100-NVL"),
        ("H100-MEGA", (), "", "H100"),
        ("H100", (), "gpu_1x_h100_pcie", "H100-PCIe"),
        ("Tesla V100", (32.0,), "", "V100-32GB"),
        ("NVIDIA RTX 4090", (48.0,), "", "RTX4090"),
        ("RTX6000Ada", (), "", "RTX6000-Ada"),
        ("A6000", (), "", "RTXA6000"),
        ("GH200", (), "", "GH200-96GB"),
        ("Gaudi HL-205", (), "", "Gaudi"),
        ("Radeon MI25", (), "", "MI25"),
    ],
)
def test_labels_of_other_catalogs(label, memory, hints, name):
    assert find_accelerator(label, memory, hints).name == name


@pytest.mark.parametrize("label", ["RTX6000", "A10000", "RTX3070", "", "100"])
def test_labels_that_mean_nothing(label):
    assert find_accelerator(label) is None


@pytest.mark.parametrize(
    ("instance_type", "family"),
    [
        ("c5.24xlarge", "c5.*"),
        ("Standard_D16ads_v6", "Standard_D*ads_v6"),
        ("Standard_D8_v5", "Standard_D*_v5"),
        ("c3-standard-8", "c3-*"),
        ("unheard", "unheard"),
    ],
)
def test_families(instance_type, family):
    assert cpu_family(instance_type)[0] == family


def shipped_rows(name: str) -> list[dict[str, str]]:
    with files("mopt").joinpath("data", name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["catalog.csv", "accelerators.csv", "cpu_families.csv", "corrections.csv"])
def test_every_figure_has_a_source(name):
    assert all(row["source"] for row in shipped_rows(name))
    assert all(row.get("date", "-") for row in shipped_rows(name))


def test_tables_refer_to_accelerators_that_exist():
    cpus = {name for name, accelerator in accelerators().items() if accelerator.kind == "cpu"}
    for row in shipped_rows("cpu_families.csv"):
        assert row["cpu"] in cpus or (not row["cpu"] and row["note"])
    for row in shipped_rows("corrections.csv"):
        assert row["accelerator"] in accelerators()


@pytest.mark.parametrize(("name", "cores"), [("EPYC-9R14", 96), ("EPYC-9V74", 80)])
def test_derived_zen_4_peaks(name, cores):
    """Two 256-bit FMA units a core: 32 fp32 FLOP a cycle, 64 bf16, at 3.7 GHz."""
    peaks = accelerators()[name].peak_tflops
    assert peaks["fp32"] == pytest.approx(cores * 32 * 3.7e9 / 1e12, rel=1e-3)
    assert peaks["bf16"] == pytest.approx(2 * peaks["fp32"], rel=1e-3)


# SkyPilot's layout


def test_skypilot_merges_zones_at_the_lowest_price():
    catalog = load_catalog(DATA / "aws.csv", spot=True)
    assert catalog[AWS + "p4d.24xlarge"].price_per_hour == 32.7726
    assert catalog[AWS + "p4d.24xlarge/spot"].price_per_hour == 9.8
    assert catalog["AWS/eu-west-1/p4d.24xlarge"].price_per_hour == 35.4
    assert len(catalog.where(accelerator="A100", spot=False)) == 2


def test_skypilot_aws():
    catalog = load_catalog(DATA / "aws.csv")
    assert catalog[AWS + "p4d.24xlarge"].memory == 320e9
    assert catalog[AWS + "p4de.24xlarge"].memory_bandwidth == 8 * 2039e9
    assert not catalog[AWS + "inf2.xlarge"].trains
    assert catalog[AWS + "c7i.24xlarge"].memory == 192 * 2**30
    assert catalog.rejected == {
        AWS + "dl1.24xlarge": "no peak FLOP/s is known of Gaudi",
        AWS + "g4ad.xlarge": "unknown accelerator 'Radeon Pro V520'",
        AWS + "a1.2xlarge": "unknown CPU family 'a1.*'",
    }


def test_skypilot_spot_above_on_demand_rejects_the_spot_offer_only():
    catalog = load_catalog(DATA / "aws.csv", spot=True)
    name = "AWS/eu-west-1/p4d.24xlarge"
    assert name in catalog
    assert catalog.rejected[name + "/spot"] == "a spot price of 36.1 $/h, above the 35.4 on demand"
    assert AWS + "g4dn.xlarge/spot" in catalog  # at the on-demand price: allowed


def test_skypilot_gcp_hosts_accelerators_and_tpus():
    catalog = load_catalog(DATA / "gcp" / "vms.csv", spot=True)
    assert catalog.rejected["GCP/us-central1/a2-highgpu-1g"] == "price of the host without its accelerators"
    assert catalog.rejected["GCP/us-central1/2xA100"] == "price of the accelerators without a host"
    chips = {r.name.split("/")[2]: (r.accelerator, r.accelerator_count) for r in catalog}
    assert chips == {
        "tpu-v3-8": ("TPUv3", 4),
        "tpu-v5litepod-8": ("TPUv5e", 8),
        "tpu-v6e-1": ("TPUv6e", 1),
        "tpu-v6e-256": ("TPUv6e", 256),
    }


def test_the_tpu_sentinel_is_no_price_even_where_it_looks_like_one():
    """700 $/h for 256 chips is 2.73 a chip, close to the real 2.70."""
    catalog = load_catalog(DATA / "gcp" / "vms.csv", spot=True)
    reason = "700 $/h stands for a TPU without a price"
    for name in ("asia-east1/tpu-v6e-1", "asia-east1/tpu-v6e-256", "southamerica-west1/tpu-v6e-1/spot"):
        assert catalog.rejected["GCP/" + name] == reason
    assert "GCP/southamerica-west1/tpu-v6e-1" in catalog
    assert catalog["GCP/us-central1/tpu-v6e-256"].price_per_hour == 691.2  # the other zone has the sentinel


def test_skypilot_azure_lists_wrongly_what_is_corrected():
    catalog = load_catalog(DATA / "azure.csv")
    assert catalog["Azure/eastus/Standard_NV6ads_A10_v5"].peak("fp16") == pytest.approx(125e12 / 6)
    assert catalog["Azure/eastus/Standard_NV4as_v4"].memory == 2e9
    assert catalog["Azure/eastus/Standard_NC24ads_A100_v4"].accelerator == "A100-80GB-PCIe"
    assert catalog["Azure/eastus2/Standard_NCC40ads_H100_v5"].accelerator == "H100-NVL"  # listed as a CPU instance
    assert catalog["Azure/eastus/Standard_ND96isr_H100_v5"].accelerator == "H100"
    assert catalog.rejected["Azure/eastus/Standard_NC4as_T4_v3"] == "no price"


@pytest.mark.parametrize(
    ("name", "accelerator", "count"),
    [
        ("CA/1x_A100-80GB_SECURE", "A100-80GB-PCIe", 1),  # memory in GiB
        ("Bulgaria, BG, EU/1x-H100_NVL-32-65536", "H100-NVL", 1),
        ("Slovenia, SI, EU/2x-A100_SXM4-32-65536", "A100", 2),  # memory of both
        ("Oklahoma, US, NA/1x-A100_PCIE-32-65536", "A100-80GB-PCIe", 1),
        ("us-east-1/gpu_1x_h100_pcie", "H100-PCIe", 1),
        ("us-east-1/gpu_8x_v100", "V100", 8),  # memory of one, called the total
        ("US/8xH100_80GB", "H100", 8),  # JSON; the total counts twice
        ("dallas-usa-3/A6000x4", "RTXA6000", 4),
    ],
)
def test_skypilot_gpu_info_in_its_dialects(name, accelerator, count):
    resource = load_catalog(DATA / "marketplace.csv")[name]
    assert (resource.accelerator, resource.accelerator_count) == (accelerator, count)


def test_skypilot_rejects_what_is_no_offer():
    catalog = load_catalog(DATA / "marketplace.csv", spot=True)
    assert catalog.rejected["US/split"] == "the region's zones list different accelerators"
    assert catalog.rejected["IS/8xH100_80GB_SPOT"] == "no price"
    assert catalog["IS/8xH100_80GB_SPOT/spot"].price_per_hour == 6.84
    assert catalog.rejected["Oklahoma, US, NA/1x-A100_PCIE-32-65536/spot"] == "a price of 0 $/h"


def test_skypilot_provider_is_the_keyword_or_the_file_or_nothing():
    assert {r.provider for r in load_catalog(DATA / "aws.csv")} == {"AWS"}
    assert {r.provider for r in load_catalog(DATA / "gcp" / "vms.csv")} == {"GCP"}
    assert {r.provider for r in load_catalog(DATA / "marketplace.csv")} == {""}
    assert {r.name.split("/")[0] for r in load_catalog(DATA / "aws.csv", provider="Mine")} == {"Mine"}


# mopt's own layout

HEADER = "cloud,instance_type,region,accelerator,accel_count,accel_mem_gb,vcpus,host_mem_gib,price_usd_h,spot_usd_h\n"


def own(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "own.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_own_layout(tmp_path):
    path = own(tmp_path, "X,big,r,A100,2,80,,,5,2", "X,tenth,r,T4,0.1,,,,0.2,", ",local,,L4,1,48,,,0.5,")
    catalog = load_catalog(path, spot=True)
    assert catalog.names == ("X/r/big", "X/r/big/spot", "X/r/tenth", "local")
    assert catalog["X/r/big"].accelerator == "A100-80GB"  # the memory tells
    assert catalog["X/r/tenth"].peak("fp16") == pytest.approx(6.5e12)
    assert catalog["local"].memory == 48e9  # as listed, not as in the table


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("X,i,r,FX9000,1,,4,16,1,", "unknown accelerator 'FX9000'"),
        ("X,i,r,Gaudi,1,32,4,16,1,", "no peak FLOP/s is known of Gaudi"),
        ("X,i.large,r,,0,,4,16,1,", "unknown CPU family 'i.*'"),
        ("X,n2-standard-8,r,,0,,8,32,1,", "runs on Cascade Lake or Ice Lake, whichever the host has"),
        ("X,c5.large,r,,0,,2,,1,", "a CPU offer without vCPUs or host memory"),
        ("X,i,r,T4,1,,4,16,,", "no price"),
        ("X,i,r,T4,1,,4,16,0,", "a price of 0 $/h"),
        ("X,i,r,T4,1,,4,16,-1,", "a price of -1 $/h"),
        ("X,i,r,TPUv4,4,,4,16,700,", "700 $/h stands for a TPU without a price"),
        ("X,i,r,T4,1,,4,16,9999,", "9999 $/h per accelerator is above 100, more than any costs"),
        ("X,i,r,T4,2,,4,16,20,", "10 $/h per accelerator is above 10 times the median of T4"),
    ],
)
def test_reasons(tmp_path, row, reason):
    real = [f"X,t4-{index},r,T4,1,,4,16,0.{index},0.1" for index in range(3, 8)]
    catalog = load_catalog(own(tmp_path, row, *real))
    assert list(catalog.rejected.values()) == [reason]
    assert len(catalog) == len(real)


def test_700_dollars_are_a_price_for_what_is_no_tpu(tmp_path):
    catalog = load_catalog(own(tmp_path, "X,i,r,H100,64,,,,700,"))
    assert catalog["X/r/i"].price_per_hour == 700


# The catalog as a sequence


def test_sequence(shipped):
    first = shipped[0]
    assert next(iter(shipped)) is first is shipped[first.name]
    assert shipped[-1] is list(shipped)[-1]
    assert first in shipped
    assert first.name in shipped
    assert "AWS/moon/p4d.24xlarge" not in shipped
    assert len(shipped[10:15]) == 5
    assert isinstance(shipped[10:15], Catalog)
    assert shipped.names == tuple(resource.name for resource in shipped)
    assert shipped.index(shipped[7]) == 7


def test_pickle_is_small_and_equal(shipped):
    dumped = pickle.dumps(shipped)
    again = pickle.loads(dumped)
    assert again == shipped
    assert again.rejected == shipped.rejected
    assert len(dumped) < 500_000


def test_repr_is_one_line(shipped):
    assert repr(shipped) == "<Catalog of 1217 resources: AWS 129, GCP 351, Azure 737; 102 rejected>"
    assert shipped._repr_html_() == "<p>Catalog of 1217 resources: AWS 129, GCP 351, Azure 737; 102 rejected</p>"
    assert repr(Catalog([])) == "<Catalog of 0 resources; 0 rejected>"


def test_equality_is_of_the_resources(shipped):
    assert shipped == Catalog(shipped)
    assert shipped != shipped[1:]
    assert shipped != list(shipped)
    dearer = Resource("a", 1.0, 1.0, 1.0, 1.0 + 1e-12)
    assert Catalog([dearer]) != Catalog([Resource("a", 1.0, 1.0, 1.0, 1.0)])


def test_where_takes_values_and_collections(both):
    part = both.where(provider=["AWS", "GCP"], accelerator={"L4", "T4"}, spot=False)
    assert {r.accelerator for r in part} == {"L4", "T4"}
    assert {r.provider for r in part} == {"AWS", "GCP"}
    assert both.where() == both
    assert both.where(names=AWS + "g5.xlarge").names == (AWS + "g5.xlarge",)
    assert both.where(names=[AWS + "g5.xlarge", AWS + "g6.xlarge"], accelerator="L4").names == (AWS + "g6.xlarge",)
    assert len(both.where(provider="AWS").where(accelerator="K80", spot=True)) == 3


def test_where_selects_what_was_kept_out_too(shipped):
    aws = shipped.where(provider="AWS")
    assert set(aws.rejected) == {AWS + "dl1.24xlarge"}
    assert len(shipped.where(accelerator="Gaudi")) == 0


# Frames


def test_frame_round_trip_of_the_shipped_catalog_is_exact(both):
    frame = both.to_frame()
    assert len(frame) == len(both)
    assert list(Catalog.from_frame(frame)) == list(both)
    row = frame.set_index("name").loc[AWS + "g5.xlarge"]
    assert (row.peak_fp16_tflops, row.memory_bandwidth_gbs, row.memory_gb) == (70, 600, 24)
    assert (row.price_usd_h, row.network_gbps, row.accelerator) == (1.006, 2.5, "A10G")


def test_frame_round_trip_through_a_file(both, tmp_path):
    path = tmp_path / "frame.csv"
    both.to_frame().to_csv(path, index=False)
    assert load_catalog(path, spot=True) == both
    assert load_catalog(path) == both.where(spot=False)


def test_frame_of_an_empty_catalog():
    frame = Catalog([]).to_frame()
    assert len(frame) == 0
    assert "price_usd_h" in frame.columns


def test_frame_needs_few_columns():
    frame = pd.DataFrame(
        {"name": ["a", "b"], "price_usd_h": [1, 2], "memory_gb": [8, 16], "memory_bandwidth_gbs": [100, 200]}
    )
    catalog = Catalog.from_frame(frame.assign(peak_tflops=[5, None], peak_fp16_tflops=[None, 9]))
    assert catalog["a"] == Resource("a", 5e12, 100e9, 8e9, 1.0)
    assert catalog["b"].peak_flops == {"fp16": 9e12}


figure = st.floats(1e-3, 1e18)
share = st.floats(0, 1, exclude_min=True)
resource = st.builds(
    Resource,
    name=st.text(min_size=1),
    peak_flops=figure | st.dictionaries(st.sampled_from(PRECISIONS), figure, min_size=1),
    memory_bandwidth=figure,
    memory=figure,
    price_per_hour=figure,
    max_units=st.none() | st.integers(0, 1000),
    compute_efficiency=share,
    bandwidth_efficiency=share,
    launch_floor=st.floats(0, 10),
    launch_overhead=st.floats(0, 10),
    unit_overhead=st.floats(0, 10),
    provider=st.sampled_from(["", "AWS"]),
    accelerator=st.sampled_from(["", "T4"]),
    accelerator_count=st.integers(1, 64),
    spot=st.booleans(),
    trains=st.booleans(),
    network_bandwidth=st.none() | figure,
    source=st.sampled_from(["", "a price list, 2026-01-01"]),
)


@given(st.lists(resource, max_size=4, unique_by=lambda r: r.name))
def test_frame_round_trip_is_equal_for_any_resources(resources):
    catalog = Catalog(resources)
    assert Catalog.from_frame(catalog.to_frame()) == catalog


def test_names_must_be_unique():
    one = Resource("a", 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(InputError, match=r"name = 'a': must be unique; there are 2"):
        Catalog([one, one])

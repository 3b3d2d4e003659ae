"""The command line: `mopt front`, `mopt catalog`, `mopt workloads`, `mopt explain`, `mopt measure`, `mopt accuracy`.

Exit status: 0 if all went well; 1 if there is no plan, the solver failed, or the front is not complete (a time limit, a
point limit, Ctrl-C; what was found is printed and written all the same); 2 for wrong input.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mopt.errors import MISSING, Fault, InfeasibleError, InputError, MoptError, SolverError
from mopt.measure_cli import accuracy, measure

if TYPE_CHECKING:
    from mopt.front import ParetoFront
    from mopt.problem_files import ProblemFile
    from mopt.workload import Workload

# What a command needs is imported when it runs, so that `mopt --help` needn't wait for it.


class _Commands(TyperGroup):
    """Commands that end with a message and an exit status, not with a traceback, when mopt raises."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MoptError as error:
            what = {InfeasibleError: "no plan", SolverError: "solver"}.get(type(error), "error")
            typer.echo(f"{what}: {error}", err=True)
            raise typer.Exit(2 if isinstance(error, InputError) else 1) from None
        except KeyboardInterrupt:  # during a solve the front so far comes back instead
            typer.echo("interrupted before there was anything to show", err=True)
            raise typer.Exit(1) from None


class _Front(TyperCommand):
    """A command whose `--html` may stand without a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = []
        for k, arg in enumerate(args):
            given.append(arg)
            if arg == "--html" and (k + 1 == len(args) or args[k + 1].startswith("-")):
                given.append(str(_BESIDE))
        return super().parse_args(ctx, given)


# A page without a name of its own.
_BESIDE = Path()

app = typer.Typer(
    name="mopt",
    cls=_Commands,
    help="Exact Pareto fronts of cost against hardware utilization for renting deep-learning hardware.",
    epilog="Exit status: 0 done; 1 no plan, solver failure, or a front that is not complete; 2 wrong input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Provider = Annotated[list[str] | None, typer.Option("--provider", help="Only offers of this provider (repeatable).")]
Region = Annotated[list[str] | None, typer.Option("--region", help="Only offers in this region (repeatable).")]
Accelerator = Annotated[
    list[str] | None, typer.Option("--accelerator", help="Only offers with this accelerator or CPU (repeatable).")
]
Name = Annotated[list[str] | None, typer.Option("--name", help="Only the offer of this name (repeatable).")]
Spot = Annotated[bool, typer.Option("--spot", help="Spot offers too.")]
CatalogFile = Annotated[
    Path | None, typer.Option("--catalog", metavar="FILE", help="A CSV catalog instead of the shipped one.")
]
LatencyLimit = Annotated[
    float | None, typer.Option("--latency-limit", metavar="S", help="Longest computing time of one launch, in s.")
]

Parallel = Annotated[
    str | None,
    typer.Option(metavar="tensor=N,...", help="How a unit's accelerators share the model: tensor, pipeline, zero."),
]


def _version(wanted: bool) -> None:
    if wanted:
        from mopt import __version__

        typer.echo(f"mopt {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What comes before the command."""


@app.command(cls=_Front)
def front(
    target: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="A shipped workload (see `mopt workloads`), a workload file or a problem file."
        ),
    ],
    samples: Annotated[float | None, typer.Option(metavar="N", help="Samples per period.")] = None,
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="The period, in s.")] = None,
    billing: Annotated[str | None, typer.Option(help="reserved (default), per_use or elapsed.")] = None,
    provider: Provider = None,
    region: Region = None,
    accelerator: Accelerator = None,
    name: Name = None,
    spot: Spot = False,
    catalog: CatalogFile = None,
    latency_limit: LatencyLimit = None,
    max_units: Annotated[int | None, typer.Option(metavar="N", help="Units of each resource, at most.")] = None,
    max_types: Annotated[int | None, typer.Option(metavar="K", help="Different resources in a plan, at most.")] = None,
    budget: Annotated[float | None, typer.Option(metavar="X", help="$ per period, at most.")] = None,
    launches: Annotated[str | None, typer.Option(help="whole or rate; the default depends on the billing.")] = None,
    max_launches: Annotated[
        int | None, typer.Option(metavar="N", help="Launches of one unit in a period, at most.")
    ] = None,
    unit_overhead: Annotated[
        str | None, typer.Option(help="allreduce: count the exchange of gradients between units of a training workload.")
    ] = None,
    parallelism: Parallel = None,
    calibration: Annotated[
        str | None,
        typer.Option(metavar="auto|FILE", help="Times as measured: by the shipped calibration, or by that of a file."),
    ] = None,
    startup: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds to start a unit, paid on top of those of the period.")
    ] = None,
    minimum_billing: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds paid of each unit, at least.")
    ] = None,
    resolution: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="X U", help="Steps at which the front is exact, in $ per period and in utilization."),
    ] = None,
    solve_time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Stop after this many seconds of solving.")
    ] = None,
    max_points: Annotated[int | None, typer.Option(metavar="N", help="Stop after this many points.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write front.csv, front.json and front.png there.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="[FILE]", help="Write an interactive web page: front.html in DIR, or here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the front as JSON, as front.json has it.")] = False,
    show_rejected: Annotated[bool, typer.Option(help="List what can't be used, with reasons.")] = False,
) -> None:
    """Trace the exact front of cost against utilization, and print its plans."""
    from mopt.epsilon import solve_epsilon_front

    offers = {
        "--provider": provider,
        "--region": region,
        "--accelerator": accelerator,
        "--name": name,
        "--spot": spot or None,
        "--catalog": catalog,
    }
    limits = {
        "--samples": samples,
        "--time-limit": time_limit,
        "--billing": billing,
        "--latency-limit": latency_limit,
        "--max-types": max_types,
        "--budget": budget,
        "--launches": launches,
        "--max-launches": max_launches,
        "--max-units": max_units,
        "--unit-overhead": unit_overhead,
        "--parallelism": parallelism,
        "--calibration": calibration,
        "--startup": startup,
        "--minimum-billing": minimum_billing,
    }
    read = _read(target, {key: v for key, v in offers.items() if v is not None},
                 {key: v for key, v in limits.items() if v is not None})  # fmt: skip
    if page == _BESIDE:
        page = (out or Path()) / "front.html"
    if page is not None:
        from mopt.page import check_extra

        check_extra()
        _make_folder("--html", page.parent)
    if out is not None:
        _make_folder("--out", out)

    def report(found: ParetoFront) -> None:
        if out is not None:
            _write(found, out)
        if page is not None:
            found.to_html(page, read.problem)
        if as_json:
            from mopt.front_io import front_json

            typer.echo(front_json(found), nl=False)
        else:
            from mopt.console import print_front, print_rejected

            print_front(found, read.problem)
            print_rejected(read, listed=show_rejected)
            written = [] if out is None else [out / file for file in _FILES]
            if page is not None:
                written.append(page)
            if written:
                typer.echo(f"wrote {', '.join(map(str, written))}")

    try:
        found = solve_epsilon_front(
            read.problem,
            resolution=resolution,
            time_limit=solve_time_limit,
            max_points=max_points,
            progress=sys.stderr.isatty(),
        )
    except SolverError as error:
        if error.front is not None and error.front.points:
            report(error.front)
        raise
    report(found)
    if not found.complete:
        raise typer.Exit(1)


_FILES = ("front.csv", "front.json", "front.png")


def _read(target: str, offers: dict[str, Any], limits: dict[str, Any]) -> ProblemFile:
    """The problem that a problem file, or a workload together with options, describes."""
    from mopt.calibration_files import load_calibration
    from mopt.problem import Problem
    from mopt.problem_files import ProblemFile, read_problem_file, select_offers
    from mopt.toml_tables import load_toml
    from mopt.workload_files import is_path, load_workload

    if is_path(target) and not load_toml(Path(target)).keys() & {"layers", "points"}:  # every workload file has either
        if faults := [Fault(target, "", option, value, "not with a problem file, which says it")
                      for option, value in (offers | limits).items()]:  # fmt: skip
            raise InputError(faults)
        return read_problem_file(target)
    if faults := [Fault("", "", option, MISSING, f"needed with the workload {target}")
                  for option in ("--samples", "--time-limit") if option not in limits]:  # fmt: skip
        raise InputError(faults)
    workload = _split(load_workload(target), limits.pop("--parallelism", None))
    chosen = select_offers(
        offers.get("--catalog"),
        spot="--spot" in offers,
        provider=offers.get("--provider"),
        region=offers.get("--region"),
        accelerator=offers.get("--accelerator"),
        names=offers.get("--name"),
    )
    most = limits.pop("--max-units", None)
    resources = tuple(chosen if most is None else (replace(resource, max_units=most) for resource in chosen))
    fields = {option.removeprefix("--").replace("-", "_"): value for option, value in limits.items()}
    if fields.get("calibration", "auto") != "auto":
        fields["calibration"] = load_calibration(fields["calibration"])
    return ProblemFile(Problem(resources, workload, **fields), chosen.rejected)


def _split(workload: Workload, parallelism: str | None) -> Workload:
    """The workload as its accelerators are told to share it."""
    if parallelism is None:
        return workload
    from mopt.parallelism import Parallelism

    return replace(workload, parallelism=Parallelism.parse(parallelism))


def _make_folder(option: str, out: Path) -> None:
    """Made before solving, so that a wrong path shows at once."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError([Fault("", "", option, str(out), f"can't be made: {error.strerror}")]) from None


def _write(found: ParetoFront, out: Path) -> None:
    from matplotlib.figure import Figure

    table, data, picture = (out / file for file in _FILES)
    figure = Figure(figsize=(6, 4), layout="constrained")  # no pyplot: no window system is needed
    found.plot(figure.add_subplot())
    try:
        found.save(data)
        found.to_frame().to_csv(table, index=False)
        figure.savefig(picture, dpi=150)
    except OSError as error:
        raise InputError([Fault("", "", "--out", str(out), f"can't be written to: {error.strerror}")]) from None


@app.command()
def catalog(
    provider: Provider = None,
    region: Region = None,
    accelerator: Accelerator = None,
    name: Name = None,
    spot: Spot = False,
    file: CatalogFile = None,
    precision: Annotated[str, typer.Option(help="Precision of the peaks shown.")] = "fp16",
    rejected: Annotated[bool, typer.Option("--rejected", help="List the offers that are kept out instead.")] = False,
) -> None:
    """List the offers to choose from."""
    from mopt.console import print_catalog, print_reasons
    from mopt.problem_files import select_offers
    from mopt.resource import PRECISIONS

    if precision not in PRECISIONS:
        raise InputError([Fault("", "", "--precision", precision, f"must be one of {', '.join(PRECISIONS)}")])
    chosen = select_offers(file, spot=spot, provider=provider, region=region, accelerator=accelerator, names=name)
    if rejected:
        print_reasons("kept out", chosen.rejected)
    else:
        print_catalog(chosen, precision)


@app.command()
def workloads(
    batch: Annotated[int, typer.Option(min=1, help="Batch at which the arithmetic intensity is taken.")] = 32,
) -> None:
    """List the shipped workloads."""
    from mopt.console import print_workloads
    from mopt.workload_files import list_workloads, load_workload

    print_workloads([load_workload(name) for name in list_workloads()], batch)


@app.command()
def explain(
    workload: Annotated[str, typer.Argument(help="A shipped workload or a workload file.")],
    resource: Annotated[str, typer.Argument(help="Name of an offer; its end will do if no other ends so.")],
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="A period in s, to see what a unit can do in it.")
    ] = None,
    latency_limit: LatencyLimit = None,
    parallelism: Parallel = None,
    file: CatalogFile = None,
) -> None:
    """Show the roofline of one resource for a workload: launch times, batch limit, capacity."""
    from mopt.catalog import load_catalog
    from mopt.console import print_roofline
    from mopt.workload_files import load_workload

    for option, value in (("--time-limit", time_limit), ("--latency-limit", latency_limit)):
        if value is not None and not value > 0:
            raise InputError([Fault("", "", option, value, "must be greater than 0")])
    offers = load_catalog(file, spot=True)
    ending = [name for name in offers.names if name.endswith(f"/{resource}")]
    if resource not in offers.names and ending:
        if len(ending) > 1:
            some = ", ".join(ending[:3]) + (", ..." if len(ending) > 3 else "")
            allowed = f"is the end of {len(ending)} names ({some}): give one in full"
            raise InputError([Fault("", "catalog", "RESOURCE", resource, allowed)])
        resource = ending[0]
    split = _split(load_workload(workload), parallelism)
    print_roofline(offers[resource], split, latency_limit=latency_limit, time_limit=time_limit)


app.command()(measure)
app.command()(accuracy)


def main() -> None:
    """Run the command line."""
    app()

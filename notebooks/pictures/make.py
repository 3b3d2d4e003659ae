"""Draw the pictures of the README again: `python notebooks/pictures/make.py`."""

from pathlib import Path

import matplotlib

import mopt

matplotlib.use("Agg")


def main() -> None:
    """Write front.png, of the README's own problem, and rooflines.png, of what stands at its ends."""
    aws = mopt.load_catalog().where(provider="AWS", region="us-east-1")
    workload = mopt.load_workload("resnet50-train")
    front = mopt.solve_epsilon_front(mopt.Problem(aws, workload, samples=2048, time_limit=1.0))
    resources = [aws[f"AWS/us-east-1/{name}"] for name in ("g5g.xlarge", "g5.xlarge", "p3.2xlarge", "p5.4xlarge")]
    workloads = [workload, mopt.load_workload("llama3-8b-decode")]
    pictures = {
        "front.png": front.plot(),
        "rooflines.png": mopt.plot_roofline(resources, workloads, batches=(1, 8, 64)),
    }
    for name, ax in pictures.items():
        ax.figure.savefig(Path(__file__).with_name(name), dpi=120)


if __name__ == "__main__":
    main()

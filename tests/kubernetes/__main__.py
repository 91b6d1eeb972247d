"""`python -m tests.kubernetes [--write] [--run [--image NAME] [--podman COMMAND]]`: the chart and its pods.

helm lints the chart with each file of ops/kubernetes/values, refuses what is wrong by its name, and makes what
ops/kubernetes/manifests has (`--write` writes it anew). kubeconform compares every object with the schemas of
Kubernetes, cert-manager and Prometheus' operator. Five seconds, and a minute for the first download of schemas.

`--run` also lets podman run the pods of two of the manifests, each made from its StatefulSet's template: a first ack, a
rolling restart under load, a lost volume, controllers and brokers apart (play.py). It takes root, podman with runc, the
image of ops/container, and four minutes.

Needed: helm (v4), kubeconform (`go install github.com/yannh/kubeconform/cmd/kubeconform@latest`), go, and
`pip install kubernetes-validate`. A part whose tool is missing is skipped, and says so. Exit code 1 for a fault.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kubernetes.helm import COMMITTED, KUBERNETES, ChartError, all_values, check_refusals, lint, render
from tests.kubernetes.schemas import SchemasMissingError, write_schemas


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes", description="The Helm chart and its pods.")
    parser.add_argument("--write", action="store_true", help="write ops/kubernetes/manifests anew")
    parser.add_argument("--run", action="store_true", help="run the pods by podman, too")
    parser.add_argument("--image", default="", help="the image to run; without it localhost/penstock of this version")
    parser.add_argument("--podman", default="", help="the command and its options, such as another --root")
    options = parser.parse_args()
    if shutil.which("helm") is None:
        print("skipped: helm is missing (go install helm.sh/helm/v4/cmd/helm@latest)")
        return 0
    try:
        made = {values: render(values) for values in all_values()}
        for values in made:
            lint(values)
        print(f"helm lint: {len(made)} files of values are good, {check_refusals()} wrong values are refused by name")
        compare(made, write=options.write)
        conform(made)
        if options.run:
            from tests.kubernetes.play import SCALED, run_pods

            scaled = render("separate", f"scaling.gone={{{SCALED}}}", f"scaling.new={{{SCALED}}}")
            run_pods(made["secured"], scaled, options.image, options.podman)
    except ChartError as error:
        print(f"FAILED: {error}")
        return 1
    return 0


def compare(made: dict[str, str], *, write: bool) -> None:
    """The committed manifests are what the templates make; ChartError."""
    for values in COMMITTED:
        path = KUBERNETES / f"manifests/{values}.yaml"
        head = f"# Made of ops/kubernetes/values/{values}.yaml by `python -m tests.kubernetes --write`; do not edit.\n"
        if write:
            path.write_text(head + made[values], encoding="utf-8")
        elif path.read_text(encoding="utf-8") != head + made[values]:
            raise ChartError(f"{path.name}: is not what the templates make; run python -m tests.kubernetes --write")
    print(f"manifests: {len(COMMITTED)} are {'written' if write else 'what the templates make'}")


def conform(made: dict[str, str]) -> None:
    """kubeconform has nothing against any object; ChartError."""
    if shutil.which("kubeconform") is None:
        print("skipped: kubeconform is missing (go install github.com/yannh/kubeconform/cmd/kubeconform@latest)")
        return
    with tempfile.TemporaryDirectory() as directory:
        try:
            location = write_schemas(Path(directory))
        except SchemasMissingError as error:
            print(f"skipped: kubeconform: {error}")
            return
        for values, text in made.items():
            command = ["kubeconform", "-strict", "-summary", "-schema-location", location, "-"]
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise ChartError(f"{values}: {done.stdout}{done.stderr}")
            print(f"kubeconform: {values}: {done.stdout.strip()}")


if __name__ == "__main__":
    sys.exit(main())

"""Runs the pods of the secured and the separate manifests by podman, and does with them what Kubernetes would do.

1. Three pods on empty volumes, all at once; the Job that makes users and topics; a record of the user `shop`.
2. A rolling restart under 1,000 records a second: the highest number first, and the next one when /syncz answers 200.
3. All pods end by SIGKILL, the first one's volume is lost, and all start again: it must not begin a second quorum, and
   its broker must be refused until its log dir is given up.
4. Three controllers and four brokers in pods of their own. The Jobs of an upgrade drain a broker and forget it; it
   comes back on a new volume, and a Job gives it its share.

What podman cannot do stands in pods.py. Needed: root, podman with netavark, runc, and an image of this tree.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from penstock.version import __version__
from tests.kubernetes.helm import ChartError
from tests.kubernetes.pods import Document, Place, all_pods, job_pod, of_kind, pod_of

PODMAN: Final = "podman --runtime runc --storage-driver vfs"
IMAGE: Final = f"localhost/penstock:{__version__}"
SUBNET: Final = "10.91.{}.0/24"
SERVICE: Final = "penstock.penstock.svc.cluster.local"
GROUP: Final = 10_001
RATE: Final = 1_000
SCALED: Final = 103
"""The broker that goes and comes back."""
READY_S: Final = 120
MIN_READY_S: Final = 5


class Machine:
    """podman, a network and a directory of one run."""

    def __init__(self, podman: str, directory: Path) -> None:
        self._podman, self.directory = shlex.split(podman), directory
        self.network = f"penstock-{os.getpid()}"
        limits = directory / "containers.conf"  # more would be refused where the machine itself is a container
        limits.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
        self._environ = {**os.environ, "CONTAINERS_CONF": str(limits)}

    def podman(self, *words: str, text: str = "", timeout: float = 180, errors: bool = False) -> str:
        """The output of a podman command, and with `errors` what it wrote to stderr; ChartError."""
        command = [*self._podman, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, env=self._environ)
        if done.returncode:
            raise ChartError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout + (done.stderr if errors else "")

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._podman, *words], stdout=subprocess.PIPE, text=True, env=self._environ)

    def secret(self, name: str, files: dict[str, bytes]) -> str:
        """A directory such as Kubernetes mounts of a Secret: root's, and for the pod's group to read."""
        path = self.directory / name
        path.mkdir()
        for file, data in files.items():
            (path / file).write_bytes(data)
            os.chown(path / file, 0, GROUP)
            (path / file).chmod(0o440)
        path.chmod(0o755)
        return str(path)


class Cluster:
    """The pods of a manifest on this machine."""

    def __init__(self, machine: Machine, documents: Sequence[Document], image: str, third: int) -> None:
        self.machine, self.documents = machine, documents
        self.pods = list(all_pods(documents))
        self.names = [name for _, name, _ in self.pods]
        self.addresses = {name: f"10.91.{third}.{10 + at}" for at, name in enumerate(self.names)}
        cluster = next(one for one in of_kind(documents, "ConfigMap") if "cluster-id" in one["data"])
        host = cluster["data"]["bootstrap"].partition(",")[0].partition(":")[0]
        self.cluster_id = cluster["data"]["cluster-id"]
        domain = host.partition(".")[2]
        secrets = _secrets(machine, self.cluster_id, self.names, domain)
        self.place = Place(self.addresses, domain, SERVICE, secrets, image)

    def start(self, *names: str) -> None:
        for at, (stateful_set, name, config) in enumerate(self.pods):
            if name in names:
                self._play(pod_of(stateful_set, name, f"zone-{at}", self.place, config), self.addresses[name])

    def _play(self, pod: Document, address: str) -> None:
        maps = of_kind(self.documents, "ConfigMap")
        text = yaml.safe_dump_all([*maps, pod])
        self.machine.podman("kube", "play", "--network", self.machine.network, "--ip", address, "-", text=text)

    def run_job(self, name: str) -> None:
        """Runs a Job to its end; ChartError."""
        job = next(one for one in of_kind(self.documents, "Job") if one["metadata"]["name"] == name)
        pod = job_pod(job, self.place)
        self._play(pod, f"{self.addresses[self.names[0]].rpartition('.')[0]}.100")
        container = f"{pod['metadata']['name']}-{pod['spec']['containers'][0]['name']}"
        wait_until(lambda: self._exited_well(container), lambda: f"{container}: {self.log(container)[-500:]}")
        self.machine.podman("pod", "rm", "-f", pod["metadata"]["name"])

    def _exited_well(self, container: str) -> bool:
        found = json.loads(self.machine.podman("container", "inspect", container))[0]["State"]
        return found["Status"] == "exited" and found["ExitCode"] == 0

    def log(self, container: str) -> str:
        return self.machine.podman("logs", container, errors=True)

    def stop(self, *names: str, signal: bool = True) -> None:
        """SIGTERM and five minutes, as Kubernetes does; SIGKILL without `signal`. Volumes stay."""
        if signal:
            self.machine.podman("pod", "stop", "-t", "300", *names, timeout=330)
        self.machine.podman("pod", "rm", "-f", "-t", "0", *names)

    def probe(self, name: str, page: str) -> tuple[bool, str]:
        """A page of a pod, asked as the kubelet asks: without a look at the certificate."""
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(
                f"https://{self.addresses[name]}:9404/{page}", timeout=5, context=context
            ) as answer:
                return True, answer.read().decode()
        except urllib.error.HTTPError as error:
            return False, error.read().decode()
        except OSError as error:
            return False, str(error)

    def wait_ready(self, *names: str) -> float:
        """The seconds until all of these are ready; ChartError."""
        began = time.monotonic()
        for name in names:
            wait_until(partial(self._is_ready, name), partial(self._not_ready, name))
        return time.monotonic() - began

    def _is_ready(self, name: str) -> bool:
        return self.probe(name, "syncz")[0]

    def _not_ready(self, name: str) -> str:
        return f"{name} is not ready: {self.probe(name, 'syncz')[1]}{self.log(f'{name}-penstock')[-1000:]}"

    def client(self, user: str, *words: str, stays: bool = False, volume: str = "") -> list[str]:
        """The words of `podman` by which a client of the cluster runs."""
        hosts = [f"--add-host={pod}.{self.place.domain}:{ip}" for pod, ip in self.addresses.items()]
        hosts.append(f"--add-host={SERVICE}:{self.addresses[self.names[0]]}")
        environ = {
            "BOOTSTRAP": f"{SERVICE}:9192",
            "TLS_CA": "/tls/ca.pem",
            "USERNAME": user,
            "PASSWORD_FILE": "/user/password",
        }
        secret = self.place.secrets["penstock-admin" if user == "admin" else f"{user}-password"]
        run = ["run", "--rm", *([] if stays else ["-i"]), "--read-only", "--cap-drop=ALL", f"--user={GROUP}:{GROUP}"]
        run += [
            f"--network={self.machine.network}",
            *hosts,
            *(f"--env=PENSTOCK_{key}={v}" for key, v in environ.items()),
        ]
        run += ["-v", f"{self.place.secrets['penstock-tls']}:/tls:ro", "-v", f"{secret}:/user:ro"]
        return [*run, *(["-v", volume] if volume else []), *words]


def wait_until(holds: Callable[[], bool], what: Callable[[], str], seconds: float = READY_S) -> None:
    """ChartError with what is seen then, if it does not hold in time."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise ChartError(f"after {seconds:.0f} s: {what()}")
        time.sleep(0.2)


def run_pods(secured: str, separate: str, image: str, podman: str) -> None:
    """The stories of two manifests; ChartError where one does not end as it should."""
    missing = [tool for tool in ("podman", "runc") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        print(f"skipped: pods: {', '.join(missing) or 'root'} is missing")
        return
    with _machine(podman) as (machine, third):
        cluster = Cluster(machine, list(yaml.safe_load_all(secured)), image or IMAGE, third)
        first_ack(cluster, "shop")
        rolling_restart(cluster)
        lost_volume(cluster)
    with _machine(podman) as (machine, third):
        cluster = Cluster(machine, list(yaml.safe_load_all(separate)), image or IMAGE, third)
        first_ack(cluster, "admin")
        fewer_and_more(cluster)


@contextmanager
def _machine(podman: str) -> Iterator[tuple[Machine, int]]:
    with tempfile.TemporaryDirectory(prefix="penstock-pods-") as name:
        Path(name).chmod(0o755)
        machine, third = Machine(podman or PODMAN, Path(name)), os.getpid() % 250
        machine.podman("network", "create", "--subnet", SUBNET.format(third), machine.network)
        try:
            yield machine, third
        finally:
            made = [line for line in machine.podman("pod", "ps", "--format", "{{.Name}}").split() if "penstock" in line]
            if made:
                machine.podman("pod", "rm", "-f", *made)
            claims = [one for one in machine.podman("volume", "ls", "-q").split() if one.startswith("data-penstock")]
            if claims:
                machine.podman("volume", "rm", "-f", *claims)
            machine.podman("network", "rm", "-f", machine.network)


def _secrets(machine: Machine, cluster_id: str, names: Sequence[str], domain: str) -> dict[str, str]:
    """The Secrets of docs/kubernetes.md, made by its commands."""
    certs = machine.directory / "ca"
    subprocess.run(
        ["penstock", "certs", "init", "--dir", certs, "--cluster-id", cluster_id], check=True, capture_output=True
    )
    files = {"ca.pem": (certs / "ca.pem").read_bytes()}
    for name in names:
        number = name.rpartition("-")[2]
        hosts = [word for host in (f"{name}.{domain}", "localhost", SERVICE) for word in ("--host", host)]
        subprocess.run(["penstock", "certs", "node", number, "--dir", certs, *hosts], check=True, capture_output=True)
        files[f"node-{number}.pem"] = (certs / f"node-{number}.pem").read_bytes()
    made = {"penstock-tls": machine.secret("penstock-tls", files)}
    password = os.urandom(18).hex().encode()
    for secret in ("penstock-admin", "shop-password"):
        made[secret] = machine.secret(secret, {"password": password})
    made["users"] = machine.secret("users", {"shop": password})
    for name in ("tls", f"{names[0]}-tls"):  # what cert-manager would make, as the pods of a pool and of Jobs mount it
        made[name] = made["penstock-tls"]
    return made


def first_ack(cluster: Cluster, user: str) -> None:
    """From nothing to a record that is acked. Where no Job makes the topic, the admin does."""
    began = time.monotonic()
    cluster.start(*cluster.names)
    cluster.wait_ready(*cluster.names)
    ready = time.monotonic() - began
    if user != "admin":
        cluster.run_job("penstock-declare")
    run, client = cluster.machine.podman, partial(cluster.client, user, cluster.place.image)
    if user == "admin":
        run(*client("topics", "create", "orders", "--partitions", "8"))
    run(*client("produce", "orders"), text="first record\n")
    run("exec", f"{cluster.names[0]}-penstock", "penstock", "cluster", "health")
    print(f"pods: {len(cluster.names)} are ready after {ready:.1f} s; first ack after {time.monotonic() - began:.1f} s")


def rolling_restart(cluster: Cluster) -> None:
    """As a StatefulSet's controller does it, under load; ChartError for a record that failed or was lost."""
    directory = cluster.machine.directory / "load"
    directory.mkdir()
    directory.chmod(0o777)
    shutil.copy(Path(__file__).with_name("paced_producer.py"), directory)
    words = [
        "--entrypoint=/opt/penstock/bin/python",
        cluster.place.image,
        "/load/paced_producer.py",
        "/load",
        str(RATE),
    ]
    producer = cluster.machine.begin(*cluster.client("shop", *words, stays=True, volume=f"{directory}:/load"))
    try:
        wait_until((directory / "begun").exists, lambda: "the producer has not begun")
        for name in reversed(cluster.names):
            began = time.monotonic()
            cluster.stop(name)
            stopped = time.monotonic()
            cluster.start(name)
            cluster.wait_ready(name)
            print(f"pods: {name} stopped in {stopped - began:.1f} s, in sync {time.monotonic() - stopped:.1f} s later")
            time.sleep(MIN_READY_S)
    finally:
        (directory / "stop").touch()
    output, _ = producer.communicate(timeout=120)
    found = json.loads(output.splitlines()[-1])
    print(f"pods: rolling restart at {RATE} records/s: {json.dumps(found)}")
    if found["failed"] or found["lost"] or found["doubled"] or not found["acked"]:
        raise ChartError(f"rolling restart: {found}")


def lost_volume(cluster: Cluster) -> None:
    """The first controller's volume is gone while no pod runs; ChartError if it begins a second quorum."""
    first = cluster.names[0]
    before = _voters(cluster)
    cluster.stop(*cluster.names, signal=False)
    cluster.machine.podman("volume", "rm", f"data-{first}")
    cluster.start(*cluster.names)
    container = f"{first}-penstock"
    wait_until(
        lambda: "joins it: start it again" in cluster.log(container),
        lambda: f"{first}: {cluster.log(container)[-500:]}",
    )
    wait_until(lambda: "--lost-log-dirs" in cluster.log(container), lambda: f"{first}: {cluster.log(container)[-500:]}")
    lost = re.findall(r"--lost-log-dirs ([A-Za-z0-9_-]{22})", cluster.log(container))[-1]
    for _, name, config in cluster.pods:
        if name == first:
            config["data"]["lost-log-dirs"] = lost
    cluster.stop(first, signal=False)
    cluster.start(first)
    cluster.wait_ready(*cluster.names)
    after = _voters(cluster)
    if len(before) != 3 or len(after) != 3 or len(before & after) != 2:
        raise ChartError(f"lost volume: the voters were {before}, and are {after}")
    print(f"pods: {first} lost its volume while all were stopped: refused, {lost} given up, and three voters, one anew")


def fewer_and_more(cluster: Cluster) -> None:
    """The Jobs of an upgrade with a broker less, and then with one more; ChartError."""
    began = time.monotonic()
    pod = next(name for name in cluster.names if name.endswith(f"-{SCALED}"))
    cluster.run_job("penstock-drain")
    drained = time.monotonic()
    cluster.stop(pod)
    cluster.machine.podman("volume", "rm", f"data-{pod}")
    cluster.run_job("penstock-unregister")
    forgotten = time.monotonic()
    cluster.start(pod)
    cluster.run_job("penstock-balance")
    found = json.loads(
        cluster.machine.podman(*cluster.client("admin", cluster.place.image, "brokers", "list", "--json"))
    )
    replicas = {one["broker"]: one["replicas"] for one in found}
    if not replicas.get(SCALED):
        raise ChartError(f"broker {SCALED} has no share: {replicas}")
    seconds = f"drained in {drained - began:.1f} s, forgotten {forgotten - drained:.1f} s later"
    print(f"pods: broker {SCALED} was {seconds}, and back with its share after {time.monotonic() - forgotten:.1f} s")


def _voters(cluster: Cluster) -> set[str]:
    """The voters, each with its disk."""
    words = cluster.client("admin", cluster.place.image, "quorum", "describe", "--json")
    found = json.loads(cluster.machine.podman(*words))
    return {f"{one['node_id']}:{one['directory_id']}" for one in found["voters"]}

#!/usr/bin/env python3
"""The manifests of deploy/kubernetes: valid by Kubernetes' own schemas. Their pods, played by processes on two hosts,
train, are stopped as by a drained node, and end in the bits of a run that nobody disturbed.

    kubernetes_test.py TANDEM [KubernetesTest.test_...]

What a pod's process is told comes from the manifest: its arguments, its variables, the paths of what is mounted. Runs
in .venv/deploy. Exits with 77, which counts as skipped, where hosts cannot be made (hosts.py).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kubernetes_validate
import yaml
from hosts import SKIPPED, Hosts, end, environment, lacking, own_namespaces, wait_until

MANIFESTS = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSIONS = ["1.31", "1.37"]
LIMIT_S = 300
SECRET = "the secret of two pods"
INDEX = "batch.kubernetes.io/job-completion-index"
STEPS = 100_000  # in the place of the manifest's


def documents(name: str) -> list[dict]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def document(name: str, kind: str) -> dict:
    (found,) = (each for each in documents(name) if each["kind"] == kind)
    return found


def templates() -> dict[str, dict]:
    """Of all pods."""
    replicas = document("pytorchjob.yaml", "PyTorchJob")["spec"]["pytorchReplicaSpecs"]
    of_job = {"Job": document("indexed-job.yaml", "Job")["spec"]["template"]}
    return of_job | {name: replica["template"] for name, replica in replicas.items()}


class Pod:
    """The process of a pod's container, which finds what is mounted below `volumes`."""

    def __init__(self, template: dict, given: dict[str, str], program: list[str], volumes: Path):
        (container,) = template["spec"]["containers"]
        self._mounts = {each["mountPath"]: str(volumes / each["name"]) for each in container["volumeMounts"]}
        annotations = {INDEX: given.pop(INDEX, "")}
        variables = {each["name"]: self.value(each, annotations) for each in container["env"]}
        steps = f"--total-steps={STEPS}"
        arguments = [self.here(re.sub("--total-steps=.*", steps, each)) for each in container["args"]]
        self.process = subprocess.Popen([*program, *arguments], env=environment() | variables | given, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=volumes)

    def here(self, text: str) -> str:
        for path, folder in self._mounts.items():
            text = text.replace(path, folder)
        return text

    def value(self, variable: dict, annotations: dict[str, str]) -> str:
        if "value" in variable:
            return self.here(variable["value"])
        path = variable["valueFrom"]["fieldRef"]["fieldPath"]
        return annotations[re.fullmatch(r"metadata\.annotations\['(.*)'\]", path).group(1)]

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, said


class KubernetesTest(unittest.TestCase):
    tandem = ""

    def setUp(self):
        self.volumes = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("runs", "secret"):
            (self.volumes / name).mkdir()
        self.write_secret(SECRET)

    def write_secret(self, secret: str) -> None:
        (key,) = document("secret.yaml", "Secret")["stringData"]
        (self.volumes / "secret" / key).write_text(secret)

    def test_manifests_are_valid(self):
        """The resource of Kubeflow's is not Kubernetes' own: the templates of its pods are."""
        resources = [each for file in sorted(MANIFESTS.iterdir()) for each in documents(file.name)]
        own = [each for each in resources if each["apiVersion"] != "kubeflow.org/v1"]
        self.assertEqual(len(resources) - len(own), 1)
        for name, template in templates().items():
            metadata = {"name": name.lower()}
            own.append({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template})
        for resource in own:
            for version in VERSIONS:
                with self.subTest(resource["kind"], version=version):
                    kubernetes_validate.validate(resource, version, strict=True)

    def test_pods_have_no_privileges(self):
        """As the restricted of the Pod Security Standards."""
        for name, template in templates().items():
            with self.subTest(name):
                pod, (container,) = template["spec"]["securityContext"], template["spec"]["containers"]
                self.assertTrue(pod["runAsNonRoot"])
                self.assertEqual(pod["seccompProfile"], {"type": "RuntimeDefault"})
                context = container["securityContext"]
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                self.assertFalse(context["allowPrivilegeEscalation"])
                self.assertTrue(context["readOnlyRootFilesystem"])
                self.assertFalse(template["spec"]["automountServiceAccountToken"])

    def summary(self) -> dict:
        return json.loads((self.volumes / "runs" / "pole" / "summary.json").read_text())

    def undisturbed(self) -> str:
        arguments = document("indexed-job.yaml", "Job")["spec"]["template"]["spec"]["containers"][0]["args"]
        kept = [each for each in arguments if not each.startswith(("--total-steps", "--run-dir"))]
        folder = self.volumes / "alone"
        command = [self.tandem, *kept, f"--total-steps={STEPS}", f"--run-dir={folder}", "--devices=cpu:2", "--quiet"]
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S, env=environment())
        return json.loads((folder / "summary.json").read_text())["state_sha256"]

    def expect_pods_to_go_on(self, start) -> None:
        """`start` makes the pods anew each time. One of them is ended, as by the kubelet."""
        metrics = self.volumes / "runs" / "pole" / "metrics.jsonl"
        pods = start()
        self.addCleanup(lambda: end([pod.process for pod in pods]))
        wait_until("ten updates", lambda: metrics.exists() and metrics.read_text().count("\n") >= 10)
        pods[1].process.terminate()
        ends = [pod.end() for pod in pods]
        self.assertEqual([code for code, _ in ends], [130, 130], ends)
        pods = start()
        ends = [pod.end() for pod in pods]
        self.assertEqual([code for code, _ in ends], [0, 0], ends)
        self.assertEqual((self.summary()["end"], self.summary()["resumed"]), ("finished", "exactly"))
        self.assertEqual(self.summary()["state_sha256"], self.undisturbed())

    def test_pods_of_the_indexed_job(self):
        job, service = document("indexed-job.yaml", "Job"), document("indexed-job.yaml", "Service")
        name, spec = job["metadata"]["name"], job["spec"]
        self.assertEqual(service["spec"]["selector"], {"batch.kubernetes.io/job-name": name})
        self.assertEqual(spec["template"]["spec"]["subdomain"], service["metadata"]["name"])
        self.assertEqual((spec["completions"], spec["parallelism"]), (2, 2))
        names = [f"{name}-{index} {name}-{index}.{service['metadata']['name']}" for index in range(2)]
        with Hosts(names) as hosts:
            self.expect_pods_to_go_on(lambda: [
                Pod(spec["template"], {INDEX: str(index)}, [*hosts.enter(index), self.tandem], self.volumes)
                for index in range(2)
            ])

    def test_pods_of_the_pytorchjob(self):
        """Which the operator gives these variables (pkg/controller.v1/pytorch/envvar.go of its release 1.9)."""
        job = document("pytorchjob.yaml", "PyTorchJob")
        name, replicas = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
        given = {"MASTER_ADDR": f"{name}-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "PET_NNODES": "2"}
        with Hosts([f"{name}-master-0", f"{name}-worker-0"]) as hosts:
            self.expect_pods_to_go_on(lambda: [
                Pod(template, given | {"RANK": str(rank)}, [*hosts.enter(rank), self.tandem], self.volumes)
                for rank, template in enumerate(replicas[kind]["template"] for kind in ("Master", "Worker"))
            ])

    def test_the_secret_of_the_example_is_refused(self):
        self.write_secret(document("secret.yaml", "Secret")["stringData"]["secret"])
        template = document("indexed-job.yaml", "Job")["spec"]["template"]
        code, said = Pod(template, {INDEX: "0"}, [self.tandem], self.volumes).end()
        self.assertEqual(code, 2, said)
        self.assertIn("expected 16 to 4096", said)


if __name__ == "__main__":
    reason = lacking([])
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    own_namespaces()
    KubernetesTest.tandem = str(Path(sys.argv.pop(1)).resolve())
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main(verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""The source distribution and the wheel. Skipped where their tools are not installed: pip install build
scikit-build-core auditwheel abi3audit, and readelf and nm of binutils.

Both are built here, unless the environment names them: GSC_DIST, a folder with a source distribution and the wheel made
of it; GSC_WHEEL, the wheel of the checkout."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

for module in ("build", "scikit_build_core", "auditwheel", "abi3audit"):
    pytest.importorskip(module)
for tool in ("nm", "readelf"):
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}", allow_module_level=True)

PROJECT = Path(__file__).resolve().parents[1]
EXTENSION = "gradscaler/_core.abi3.so"
MANYLINUX = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2"}
LOADER = re.compile(r"ld-linux(-[\w-]+)?\.so\.\d")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def python(module, *arguments):
    return run(sys.executable, "-m", module, *map(str, arguments))


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the source distribution and the wheel made of it."""
    if "GSC_DIST" in os.environ:
        return Path(os.environ["GSC_DIST"])
    folder = tmp_path_factory.mktemp("dist")
    python("build", "--no-isolation", "-o", folder, PROJECT)
    return folder


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    """The wheel of the checkout."""
    if "GSC_WHEEL" in os.environ:
        return Path(os.environ["GSC_WHEEL"])
    folder = tmp_path_factory.mktemp("direct")
    python("build", "--no-isolation", "--wheel", "-o", folder, PROJECT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def extension(wheel, tmp_path_factory):
    with zipfile.ZipFile(wheel) as files:
        return files.extract(EXTENSION, tmp_path_factory.mktemp("extension"))


def version():
    text = (PROJECT / "core/include/gradscaler/version.h").read_text()
    return re.search(r'GSC_VERSION_STRING "(.*)"', text).group(1)


def test_names_have_the_version_of_the_core_and_the_stable_abi(dist, wheel):
    (sdist,) = dist.glob("*.tar.gz")
    assert sdist.name == f"gradscaler-{version()}.tar.gz"
    assert wheel.name.startswith(f"gradscaler-{version()}-cp39-abi3-linux_")


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    info = f"gradscaler-{version()}.dist-info"
    sources = {f"gradscaler/{path.name}" for path in (PROJECT / "gradscaler").iterdir() if path.is_file()}
    assert {"gradscaler/__init__.py", "gradscaler/_core.pyi", "gradscaler/py.typed"} <= sources
    assert names == sources | {EXTENSION} | {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")
    }


def test_sdist_holds_files_not_links(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        members = files.getmembers()
    assert all(member.isfile() for member in members)
    names = {member.name.split("/", 1)[1] for member in members}
    sources = {
        f"core/src/{path}" for path in ("base/status.c", "kernels/dispatch.c", "gradients/norm.c", "core/step.c")
    }
    assert {"LICENSE"} | sources <= names
    assert not [name for name in names if "/train/" in name or "/cli/" in name]


def test_sdist_and_checkout_make_the_same_wheel(wheel, direct):
    assert direct.name == wheel.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(direct) as other:
        assert one.namelist() == other.namelist()
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []


def test_only_the_entry_point_is_exported(extension):
    symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", extension).splitlines()]
    assert symbols == ["PyInit__core"]


def test_needs_only_what_every_linux_has(extension):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", extension)))
    assert "libc.so.6" in needed
    assert not [name for name in needed - MANYLINUX if not LOADER.fullmatch(name)]


def test_takes_nothing_of_the_static_thread_storage(extension):
    assert "STATIC_TLS" not in run("readelf", "-dW", extension)


def test_auditwheel_finds_a_manylinux_tag(wheel):
    report = python("auditwheel", "show", wheel)
    tag = re.search(r'"manylinux_2_(\d+)_', report)
    assert tag and int(tag.group(1)) >= 17, report  # how new depends on the C library of the machine that builds


def test_abi3audit_finds_nothing(wheel):
    python("abi3audit", "--strict", wheel)

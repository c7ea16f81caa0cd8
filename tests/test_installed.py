"""The installation has every file that the programs need, and no other file."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from textwrap import indent
from zipfile import ZipFile

from gridbridge.shell.program_startup import COMMIT

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_package_that_is_no_python_is_installed() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    package = ROOT / "gridbridge"
    there = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}

    others = {str(path) for path in there if path.suffix not in (".py", ".pyc")}
    packed = set(setup["options.package_data"]["gridbridge"].split())
    assert packed == others


def test_a_module_that_was_renamed_since_the_last_installation_is_not_installed(tmp_path: Path) -> None:
    """Setuptools packs old files that it left in build/lib."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/wheel", tmp_path / "tools")
    for path in ("build/lib/gridbridge/renamed_since.py", "build/man/page.1", "wheel/old.whl"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    pip = tmp_path / ".venv/bin/pip"
    pip.parent.mkdir(parents=True)
    pip.write_text("#!/bin/sh\nfind build wheel -type f 2>/dev/null >packed\necho $* >>packed\n")
    pip.chmod(0o755)
    subprocess.run([tmp_path / "tools/wheel", "wheel"], check=True)

    packed, asked = (tmp_path / "packed").read_text().splitlines()
    assert (packed, asked.partition(" ")[0]) == ("build/man/page.1", "wheel")


def test_a_built_package_records_its_commit_and_the_checkout_does_not(tmp_path: Path) -> None:
    """Both `pip install .` in a checkout and tools/wheel record the commit."""
    checkout, built = tmp_path / "check out", tmp_path / "built"
    (checkout / "gridbridge").mkdir(parents=True)
    (checkout / "gridbridge/__init__.py").touch()
    metadata = "[metadata]\nname = gridbridge\nversion = 1\n[options]\npackages = gridbridge\n"
    (checkout / "setup.cfg").write_text(metadata)
    shutil.copy(ROOT / "setup.py", checkout)
    who = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
        subprocess.run([*who, *words], check=True)
    head = subprocess.run([*who, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    build = (sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built))

    subprocess.run(build, cwd=checkout, check=True)

    assert head.stdout.startswith((built / "gridbridge" / COMMIT).read_text().strip())
    assert not (checkout / "gridbridge" / COMMIT).exists()
    shutil.rmtree(checkout / ".git")
    subprocess.run(build, cwd=checkout, check=True)
    assert not (built / "gridbridge" / COMMIT).exists()


MODULES = 150  # of the small package whose versions the tests install
PROGRAM = f"""import importlib
found = {{importlib.import_module(f"gridbridge.part{{n}}").VERSION for n in range({MODULES})}}
assert len(found) == 1, found
"""


def wheel(folder: Path, version: str) -> Path:
    """Return a wheel of a package with many modules, each of which has the version."""
    path = folder / f"gridbridge-{version}-py3-none-any.whl"
    about = f"gridbridge-{version}.dist-info"
    files = {f"gridbridge/part{n}.py": f"VERSION = {version!r}\n" for n in range(MODULES)} | {
        "gridbridge/__init__.py": "",
        "gridbridge/main.py": "def main():\n" + indent(PROGRAM, "    "),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: gridbridge\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\nshown = gridbridge.main:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with ZipFile(path, "w") as packed:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            packed.writestr(name, text)
    return path


def build(dest: Path, of: Path) -> Path:
    argv = (ROOT / "tools/environment", dest, of)
    done = subprocess.run(argv, check=True, cwd=ROOT, capture_output=True, text=True)
    return dest / done.stdout.strip()


def test_programs_that_start_during_an_upgrade_have_one_version_whole(tmp_path: Path) -> None:
    """A program would fail if pip changed its folder during its imports."""
    build(tmp_path, wheel(tmp_path, "1"))
    argv = [tmp_path / "venv/bin/python3", "-I", "-c", PROGRAM + "print(*found)"]
    upgrade = subprocess.Popen(
        [ROOT / "tools/environment", tmp_path, wheel(tmp_path, "2")], cwd=ROOT, stdout=subprocess.PIPE
    )
    ran = []
    while upgrade.poll() is None:
        ran.append(subprocess.run(argv, check=False, capture_output=True, text=True))
    upgrade.communicate()
    ran.append(subprocess.run(argv, check=False, capture_output=True, text=True))

    assert [done.stderr for done in ran if done.returncode] == []
    assert (ran[0].stdout, ran[-1].stdout, upgrade.returncode) == ("1\n", "2\n", 0)


def test_an_environment_stays_while_a_program_runs_in_it(tmp_path: Path) -> None:
    """The environment used before always stays, since programs of other hosts may run in it."""
    first = build(tmp_path, wheel(tmp_path, "1"))
    (packages,) = first.glob("lib/python3*/site-packages")
    (packages / "driver.py").touch()
    halves = f"import gridbridge.part0, sys; sys.stdin.read(); {PROGRAM}print(*found)"
    argv = [first.resolve() / "bin/python3", "-I", "-c", halves]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        second = build(tmp_path, wheel(tmp_path, "2"))
        third = build(tmp_path, wheel(tmp_path, "3"))

        assert {*tmp_path.glob("venv-*")} == {first, second, third}
        assert running.communicate(b"")[0] == b"1\n"
    fourth = build(tmp_path, wheel(tmp_path, "4"))
    assert {*tmp_path.glob("venv-*")} == {third, fourth}
    assert (tmp_path / "venv").readlink() == Path(fourth.name)
    assert (fourth / "bin/shown").read_text().startswith(f"#!{fourth}/bin/python3\n")
    subprocess.run([tmp_path / "venv/bin/shown"], check=True)
    subprocess.run([tmp_path / "venv/bin/python3", "-I", "-c", "import driver"], check=True)


def test_a_program_goes_on_with_the_version_in_which_it_started(tmp_path: Path) -> None:
    """The link by which the program started may lead to another version before its later imports."""
    build(tmp_path, wheel(tmp_path, "1"))
    halves = f"import sys; print(flush=True); sys.stdin.read(); {PROGRAM}print(*found)"
    argv = [tmp_path / "venv/bin/python3", "-I", "-c", halves]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout
        running.stdout.readline()
        build(tmp_path, wheel(tmp_path, "2"))

        assert running.communicate(b"")[0] == b"1\n"

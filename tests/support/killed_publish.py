"""Publishes in child processes that are killed, at each change to the file system and at random moments.

python killed_publish.py WORK STEP OLD NEW     exit code 0 and the number of kills if no kill did harm

OLD and NEW are folders of sets. WORK/out, an existing publication of OLD, is replaced by one of NEW, with changes.
Every STEP-th change kills, and 8 / STEP random moments do. This process only forks and compares bytes, so that its
children can start threads.
"""

import os
import random
import shutil
import signal
import sys
import time
from itertools import count
from pathlib import Path

from kifu.publication.publish import publish

CHANGERS = ("rename", "replace", "unlink", "rmdir", "mkdir")


def content(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files} if folder.exists() else None


def fork(sets, out, previous=None, last=None):
    """Start a child that publishes, and kills itself before its change number `last` to the file system."""
    child = os.fork()
    if child:
        return child
    left = count()

    def counted(change):
        def run(*arguments, **options):
            if next(left) == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*arguments, **options)

        return run

    for name in CHANGERS if last is not None else ():
        setattr(Path, name, counted(getattr(Path, name)))
    try:
        publish(sets, out, title="killed", previous=previous, jobs=1, overwrite=True)
    finally:
        os._exit(sys.exc_info()[0] is not None)


def wait(child):
    """Return whether it was killed."""
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


def main(work, step, old, new):
    base, out = work / "base", work / "out"
    wait(fork(old, base))
    start = time.monotonic()
    wait(fork(new, out, base))
    duration = time.monotonic() - start
    before, good = content(base), content(out)
    shutil.rmtree(out)
    chance, kills = random.Random(step), 0

    def check(child, allowed):
        assert content(out) in allowed, "half published"
        wait(fork(new, out, base))
        assert content(out) == good, child
        assert sorted(path.name for path in work.iterdir()) == ["base", "out"], "leftovers"
        shutil.rmtree(out)

    for last in count(0, step):
        shutil.copytree(base, out)
        if not wait(fork(new, out, base, last)):
            break
        kills += 1
        check(last, (before, None, good))
    shutil.rmtree(out)
    for _ in range(8 // step):
        child = fork(new, out, base)
        time.sleep(chance.uniform(0, duration))
        os.kill(child, signal.SIGKILL)
        kills += wait(child)
        check(child, (None, good))
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *map(Path, sys.argv[3:]))

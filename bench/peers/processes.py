"""Memory of processes and their children, sampled from /proc."""
import pathlib
import threading
import time


def children():
    """Children of every process: {parent: [child]}."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(stat.parent.name))
    return found


def resident(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def tree(pid):
    """The process and all its descendants."""
    below = children()
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += below.get(found[-1], [])
    return found


class PeakMemory(threading.Thread):
    """The most memory that processes held together; `pids` names them, as it may change.

        with PeakMemory(lambda: tree(server.pid)) as memory: ...
        print(memory.peak)
    """

    def __init__(self, pids, pause=0.2):
        super().__init__(daemon=True)
        self.pids, self.pause, self.peak, self.over = pids, pause, 0, False

    def run(self):
        while not self.over:
            self.peak = max(self.peak, sum(resident(pid) for pid in self.pids()))
            time.sleep(self.pause)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()

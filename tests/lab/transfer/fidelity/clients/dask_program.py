"""Run two functions on a worker of dask-jobqueue, and print the hosts on which they ran."""

import json
import socket
import sys

from dask_jobqueue import SGECluster  # type: ignore[import-not-found]
from distributed import Client  # type: ignore[import-not-found]


def host_of(number: int) -> tuple[int, str]:
    return number, socket.gethostname()


with (
    SGECluster(
        queue="transfer-beta",
        cores=1,
        memory="200MB",
        resource_spec="h_rt=300",
        walltime="00:05:00",
        local_directory="/tmp",
        scheduler_options={"host": socket.gethostbyname(socket.gethostname()), "dashboard": False},
    ) as cluster,
    Client(cluster) as client,
):
    cluster.scale(1)
    asked = client.map(host_of, [1, 2], pure=False)
    sys.stdout.write(json.dumps(client.gather(asked)))

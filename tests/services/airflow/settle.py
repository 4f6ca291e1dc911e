"""settle.py 3|2 URL SECONDS PID..: waits until an Airflow works.

That is: everything in it is healthy, its DAGs are parsed and the user `viewer` can log in. Exit code 1 and a line on
standard error if one of the processes ends or the time is over.
"""

import base64
import json
import sys
import time
import urllib.error
import urllib.request

version, url, seconds, pids = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]
over = time.monotonic() + seconds
send = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
# One of each file.
wanted = ["events_daily", "fragile_daily"]


def ask(path, body=None, **headers):
    """What the server answers, or None if it does not, or not yet."""
    data = None if body is None else json.dumps(body).encode()
    headers["content-type"] = "application/json"
    try:
        with send(urllib.request.Request(url + path, data, headers), timeout=20) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


def healthy():
    parts = ask("/api/v2/monitor/health" if version == "3" else "/api/v1/health") or {}
    needed = ["metadatabase", "scheduler"] + (["dag_processor"] if version == "3" else [])
    return all((parts.get(part) or {}).get("status") == "healthy" for part in needed)


def login(name):
    if version == "2":
        secret = base64.b64encode(f"{name}:{name}".encode()).decode()
        return {"authorization": "Basic " + secret}
    answer = ask("/auth/token", {"username": name, "password": name})
    return answer and {"authorization": "Bearer " + answer["access_token"]}


def has_viewer():
    if version == "3":
        return login("viewer")
    if ask("/api/v1/dags?limit=1", **login("viewer")):
        return True
    # The role is there only after the web server has made it.
    viewer = {"username": "viewer", "password": "viewer", "roles": [{"name": "Viewer"}]}
    viewer.update(first_name="A", last_name="Viewer", email="viewer@example.invalid")
    return ask("/api/v1/users", viewer, **login("admin"))


def parsed():
    who = login("admin")
    path = "/api/v2/dags/" if version == "3" else "/api/v1/dags/"
    return who and all(ask(path + dag, **who) for dag in wanted)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


for what in (healthy, has_viewer, parsed):
    while not what():
        gone = [pid for pid in pids if not alive(pid)]
        if gone or time.monotonic() > over:
            why = f"and process {gone[0]} has ended" if gone else f"after {seconds:.0f} s"
            sys.exit(f"not {what.__name__} {why}")
        time.sleep(0.3)

"""A cluster of one mock broker, inside of librdkafka, and consumer groups that commit what they are told.

burrow_feeder.py PORT_FILE

Serves on a free loopback port, which it writes to PORT_FILE together with the broker's address, one line each:

  POST /produce?topic=T&partition=P&count=N
  POST /commit?group=G&topic=T&partition=P&offset=O[&ago_ms=M]

A commit is what a broker would write into its topic of offsets, here into the topic `commits`, which Burrow is told to
read. It may claim to be older than it is, so that nobody has to wait for a group to look stopped.
"""

import http.server
import os
import struct
import sys
import time
import urllib.parse

from confluent_kafka import Producer

OFFSETS = "commits"
PARTITIONS = 4


def text(value):
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def commit_record(group, topic, partition, offset, at_ms):
    """Key of version 1 and value of version 3, as brokers write them."""
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)
    value = struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", at_ms)
    return key, value


class Cluster:
    def __init__(self):
        self.producer = Producer(
            {"test.mock.num.brokers": 1, "linger.ms": 0, "log_level": 3, "client.id": "feeder"}
        )
        # The mock broker makes a topic, of four partitions, when it is first asked about it.
        for topic in (OFFSETS, "orders", "clicks"):
            self.producer.list_topics(topic, timeout=10)
        brokers = self.producer.list_topics(timeout=10).brokers.values()
        self.address = ",".join(f"{b.host}:{b.port}" for b in brokers)

    def send(self, topic, partition, records):
        failed = []

        def done(error, _message):
            if error is not None:
                failed.append(str(error))

        for key, value in records:
            self.producer.produce(topic, value=value, key=key, partition=partition, on_delivery=done)
        left = self.producer.flush(10)
        if left or failed:
            raise RuntimeError(f"{left} not sent, {failed[:1]}")

    def produce(self, topic, partition, count):
        self.send(topic, partition, [(None, b"x")] * count)

    def commit(self, group, topic, partition, offset, ago_ms):
        at_ms = int(time.time() * 1000) - ago_ms
        # All commits of a group are in one partition, as with real brokers.
        place = sum(group.encode()) % PARTITIONS
        self.send(OFFSETS, place, [commit_record(group, topic, partition, offset, at_ms)])


def handler(cluster):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            url = urllib.parse.urlparse(self.path)
            asked = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
            number = lambda key, default=None: int(asked.get(key, default))
            try:
                if url.path == "/produce":
                    cluster.produce(asked["topic"], number("partition"), number("count"))
                elif url.path == "/commit":
                    place = (asked["group"], asked["topic"], number("partition"))
                    cluster.commit(*place, number("offset"), number("ago_ms", 0))
                else:
                    raise KeyError(url.path)
                status, words = 200, b"done\n"
            except Exception as why:  # whoever asked is told
                status, words = 500, f"{type(why).__name__}: {why}\n".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_):
            pass

    return Handler


def main():
    cluster = Cluster()
    server = http.server.HTTPServer(("127.0.0.1", 0), handler(cluster))
    fresh = sys.argv[1] + ".new"
    with open(fresh, "w", encoding="ascii") as file:
        file.write(f"{server.server_port}\n{cluster.address}\n")
    os.rename(fresh, sys.argv[1])
    server.serve_forever()


main()

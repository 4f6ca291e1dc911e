"""Encrypted and guarded listeners in front of a Kafka broker that has none.

    kafka_front.py BROKER_PORT PORT_FILE LOG CERTIFICATE KEY [sasl USER PASSWORD | mtls CA | tls]

Ends TLS, demands what the mode demands, strictly, and hands everything else to the broker on 127.0.0.1. Addresses in
its answers are turned into the front's own. With `sasl` nothing but ApiVersions, SaslHandshake and SaslAuthenticate
is let through before a login; mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. A wrong login is answered as
Apache Kafka does: error 58 and a closed connection. LOG gets a line for each login and each refused connection.
"""

import base64, hashlib, hmac, os, socket, ssl, struct, sys, threading

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
REFUSED = "Authentication failed during authentication due to invalid credentials"

broker, port_file, log_file, certificate, key, mode, *rest = sys.argv[1:]
broker = int(broker)


def log(line):
    with open(log_file, "a") as out:
        out.write(line + "\n")


def exactly(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def frame(connection):
    (size,) = struct.unpack(">i", exactly(connection, 4))
    if not 0 <= size <= 1 << 24:
        raise EOFError
    return exactly(connection, size)


def send(connection, body):
    connection.sendall(struct.pack(">i", len(body)) + body)


def string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def body_of(request):
    """What follows a header of version 1."""
    (length,) = struct.unpack(">h", request[8:10])
    return request[10 + max(length, 0) :]


def with_sasl(answer, version):
    """An answer to ApiVersions that offers the two calls of a login, too."""
    head, at, step = answer[:6], 6, 6
    # A version that the broker does not know is answered in the first one's form.
    if struct.unpack(">h", answer[4:6])[0] == 35:
        version = 0
    entries = []
    if version >= 3:
        count, step, shift = 0, 7, 0
        while True:
            byte, at = answer[at], at + 1
            count, shift = count | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        count -= 1
    else:
        (count,) = struct.unpack(">i", answer[at : at + 4])
        at += 4
    for _ in range(count):
        entries.append(answer[at : at + step])
        at += step
    ours = [struct.pack(">hhh", api, 0, 1) for api in (HANDSHAKE, AUTHENTICATE)]
    kept = [e for e in entries if struct.unpack(">h", e[:2])[0] not in (HANDSHAKE, AUTHENTICATE)]
    if version >= 3:
        kept += [o + b"\0" for o in ours]
        size, number = b"", len(kept) + 1
        while number > 127:
            size, number = size + bytes([number & 127 | 128]), number >> 7
        return head + size + bytes([number]) + b"".join(kept) + answer[at:]
    kept += ours
    return head + struct.pack(">i", len(kept)) + b"".join(kept) + answer[at:]


class Scram:
    """The server's side of SCRAM (RFC 5802) for one user."""

    def __init__(self, mechanism, user, password):
        self.digest = "sha256" if mechanism.endswith("256") else "sha512"
        self.user, self.password, self.step = user, password, 0

    def answer(self, message):
        self.step += 1
        if self.step == 1:
            if not message.startswith("n,,"):
                return None, False
            self.first = message[3:]
            fields = dict(f.split("=", 1) for f in self.first.split(","))
            if fields["n"].replace("=2C", ",").replace("=3D", "=") != self.user:
                return None, False
            self.nonce = fields["r"] + base64.b64encode(os.urandom(18)).decode()
            self.salt = os.urandom(16)
            self.told = "r=%s,s=%s,i=4096" % (self.nonce, base64.b64encode(self.salt).decode())
            return self.told, None
        bare, proof = message.rsplit(",p=", 1)
        if bare != "c=biws,r=" + self.nonce:
            return None, False
        mac = lambda k, text: hmac.new(k, text, self.digest).digest()
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), self.salt, 4096)
        client = mac(salted, b"Client Key")
        signed = ",".join([self.first, self.told, bare]).encode()
        expected = bytes(a ^ b for a, b in zip(client, mac(hashlib.new(self.digest, client).digest(), signed)))
        if not hmac.compare_digest(expected, base64.b64decode(proof)):
            return None, False
        return "v=" + base64.b64encode(mac(mac(salted, b"Server Key"), signed)).decode(), True


def login(client, upstream, user, password):
    """Serves a connection until it is logged in; False: it is to be closed."""
    mechanism = scram = None
    while True:
        request = frame(client)
        api, version, correlation = struct.unpack(">hhi", request[:8])
        if api == API_VERSIONS:
            send(upstream, request)
            send(client, with_sasl(frame(upstream), version))
        elif api == HANDSHAKE:
            body = body_of(request)
            mechanism = body[2 : 2 + struct.unpack(">h", body[:2])[0]].decode()
            error = 0 if mechanism in MECHANISMS else 33
            offered = struct.pack(">i", len(MECHANISMS)) + b"".join(map(string, MECHANISMS))
            send(client, struct.pack(">ih", correlation, error) + offered)
            if error:
                log("refused mechanism " + mechanism)
                return False
            if mechanism != "PLAIN":
                scram = Scram(mechanism, user, password)
        elif api == AUTHENTICATE and mechanism:
            body = body_of(request)
            message = body[4 : 4 + struct.unpack(">i", body[:4])[0]].decode()
            if scram:
                told, good = scram.answer(message)
            else:
                told, good = "", message.split("\0") == ["", user, password]
            tail = struct.pack(">q", 0) if version >= 1 else b""
            if good is False:
                log("refused " + mechanism)
                send(client, struct.pack(">ih", correlation, 58) + string(REFUSED) + struct.pack(">i", 0) + tail)
                return False
            data = told.encode()
            send(client, struct.pack(">ihhi", correlation, 0, -1, len(data)) + data + tail)
            if good:
                log("accepted " + mechanism)
                return True
        else:
            log("refused api %d before a login" % api)
            return False


def answers(upstream, client, ours):
    """Hands answers on, whole ones, with the front's address for the broker's."""
    theirs = b"127.0.0.1" + struct.pack(">i", broker)
    own = b"127.0.0.1" + struct.pack(">i", ours)
    try:
        while True:
            send(client, frame(upstream).replace(theirs, own))
    except (OSError, EOFError):
        pass
    for end in (upstream, client):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(raw, context, ours):
    client = upstream = None
    try:
        client = context.wrap_socket(raw, server_side=True)
        upstream = socket.create_connection(("127.0.0.1", broker))
        if mode == "sasl" and not login(client, upstream, *rest):
            return
        threading.Thread(target=answers, args=(upstream, client, ours), daemon=True).start()
        while data := client.recv(1 << 16):
            upstream.sendall(data)
    except ssl.SSLError as error:
        log("refused handshake: " + str(error.reason))
    except (OSError, EOFError, ValueError, KeyError, IndexError, struct.error):
        pass
    finally:
        for end in (client or raw, upstream):
            if end:
                end.close()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
if mode == "mtls":
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(rest[0])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
# After a restart it is the old port again.
wanted = int(open(port_file).read()) if os.path.exists(port_file) else 0
listener.bind(("127.0.0.1", wanted))
listener.listen(64)
port = listener.getsockname()[1]
with open(port_file + ".new", "w") as out:
    out.write("%d\n" % port)
os.replace(port_file + ".new", port_file)
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted, context, port), daemon=True).start()
